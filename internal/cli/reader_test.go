package cli

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// asMain, when set, has this test binary be the command itself.
const asMain = "HEADRACE_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestReader_EveryCommandThatOnlyLooksGivesWay: and no other does.
func TestReader_EveryCommandThatOnlyLooksGivesWay(t *testing.T) {
	want := []string{"audit", "diff", "export", "otel", "regroup", "replay", "show", "tail", "top", "trace", "ui"}
	var have []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.PreRunE != nil {
			have = append(have, c.Name())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(&env{out: &bytes.Buffer{}, err: &bytes.Buffer{}}))
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("%v give way, want %v", have, want)
	}
	t.Setenv(niceVariable, "polite")
	for _, args := range [][]string{{"show", "lake"}, {"ui"}, {"replay", "lake"}, {"replay", "lake", "--to", "run:copy"}, {"diff", "a", "b"}} {
		if _, errs := run(t, exitUsage, args...); !strings.Contains(errs, `HEADRACE_NICE="polite": want a nice value from 0`) {
			t.Errorf("%v says %s", args, errs)
		}
	}
	if _, errs := run(t, exitFailed, "replay", "lake", "--to", "trainer", "--dir", t.TempDir()); strings.Contains(errs, niceVariable) {
		t.Errorf("a replay that trains gives way: %s", errs)
	}
}
