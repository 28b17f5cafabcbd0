package app

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestChild_ThatDiesAgainAndAgainIsAnErrorWithItsLastWords(t *testing.T) {
	starts := 0
	c := &child{name: "trainer", program: "/bin/sh", args: []string{"-c", "echo out of luck; exit 3"}, dir: t.TempDir(),
		log: zerolog.Nop(), restarts: 1, started: func(int) { starts++ }}
	err := c.run(t.Context())
	if err == nil || starts != 2 || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%d starts, then %v", starts, err)
	}
	for _, part := range []string{"trainer died 2 times", "exit status 3", "trainer.log", "out of luck"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestChild_ThatEndsWellIsNotStartedAgain(t *testing.T) {
	starts := 0
	c := &child{name: "trainer", program: "/bin/true", dir: t.TempDir(), log: zerolog.Nop(), restarts: 1, started: func(int) { starts++ }}
	if err := c.run(t.Context()); err != nil || starts != 1 {
		t.Fatalf("%d starts, %v", starts, err)
	}
}

func TestChild_ThatShouldRunForEverMayNotEndWell(t *testing.T) {
	starts := 0
	c := &child{name: "engine", program: "/bin/true", out: io.Discard, log: zerolog.Nop(), always: true, started: func(int) { starts++ }}
	if err := c.run(t.Context()); !errors.Is(err, errEndedEarly) || starts != 1 {
		t.Fatalf("%d starts, %v", starts, err)
	}
}
