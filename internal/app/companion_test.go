package app

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
)

func TestNested_OuterStartsFirstAndEndsLast(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	began, events := make(chan struct{}), make(chan string, 2)
	err := nested(ctx, func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		events <- "outer"
		return nil
	}, func(ctx context.Context) error {
		<-began
		cancel()
		<-ctx.Done()
		events <- "inner"
		return nil
	})
	if first, last := <-events, <-events; err != nil || first != "inner" || last != "outer" {
		t.Errorf("%s, then %s, %v", first, last, err)
	}
}

func TestNested_TheEndOfOneIsTheEndOfTheOther(t *testing.T) {
	broken := errors.New("broken")
	fails := func(context.Context) error { return broken }
	waits := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if err := nested(t.Context(), fails, waits); !errors.Is(err, broken) {
		t.Errorf("outer: %v", err)
	}
	if err := nested(t.Context(), waits, fails); !errors.Is(err, broken) {
		t.Errorf("inner: %v", err)
	}
}

func TestWithTrainer_TellsItTheFeed(t *testing.T) {
	heard, says := io.Pipe()
	c := Companion{Args: []string{"/bin/sh", "-c", "echo at $HEADRACE_FEED"}, Output: says}.child("trainer", zerolog.Nop(), "HEADRACE_FEED=unix:feed.sock")
	err := withTrainer(limited(t), c, func(context.Context) error {
		line, err := bufio.NewReader(heard).ReadString('\n')
		if line != "at unix:feed.sock\n" {
			t.Errorf("output %q", line)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What is played after the last step is still to be inspected.
func TestWithTrainer_ThatIsDoneLeavesTheBridge(t *testing.T) {
	ctx, cancel := context.WithCancel(limited(t))
	c := Companion{Args: []string{"/bin/true"}, Output: io.Discard}.child("trainer", zerolog.Nop())
	c.started = func(int) { time.AfterFunc(50*time.Millisecond, cancel) }
	err := withTrainer(ctx, c, func(bridge context.Context) error {
		<-bridge.Done()
		if ctx.Err() == nil {
			t.Error("the bridge was ended with its trainer")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWithTrainer_ThatDiesForGoodEndsTheBridge(t *testing.T) {
	c := Companion{Args: []string{"/bin/sh", "-c", "echo out of luck; exit 3"}, Output: io.Discard}.child("trainer", zerolog.Nop())
	c.restarts = 0
	err := withTrainer(limited(t), c, func(ctx context.Context) error { <-ctx.Done(); return nil })
	if err == nil || !strings.Contains(err.Error(), "trainer died 1 times (exit status 3): out of luck") {
		t.Error(err)
	}
}

func TestReachable_IsTheAddressThatTheBusSees(t *testing.T) {
	conn, err := bus.Connect(t.Context(), natstest.Loopback(t).RemoteOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	for given, want := range map[string]string{"http://gpu7:30000": "http://gpu7:30000", "http://auto:30000": "http://127.0.0.1:30000"} {
		if got, err := reachable(conn, given); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", given, got, err, want)
		}
	}
}
