package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRows_SumUpByFault(t *testing.T) {
	got := rows([]result{
		{Fault: "kill-nats", Recovery: 0.5, Stall: 1, verdict: verdict{Resumed: 2}},
		{Fault: "kill-nats", Recovery: 1.5, Stall: 2, verdict: verdict{Lost: 1}},
		{Fault: "kill-nats", Recovery: -1, verdict: verdict{Stuck: true, Error: "stuck"}},
		{Fault: "bit-flip", Recovery: -1, verdict: verdict{Lost: 7, Mixed: 2, Reported: true}},
	})
	if len(got) != 2 {
		t.Fatalf("%d rows", len(got))
	}
	k, b := got[0], got[1]
	if k.Runs != 3 || k.Lost != 1 || k.Stuck != 1 || k.P50 != 1 || k.Max != 1.5 || k.StallMax != 2 || k.Again != 2 {
		t.Errorf("kill-nats %+v", k)
	}
	if b.Runs != 1 || b.Lost != 0 || b.Mixed != 0 || b.Reported != 1 {
		t.Errorf("bit-flip %+v", b)
	}
}

func TestReplaceBetween_OnlyTheTable(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("head\n"+markBegin+"old\n"+markEnd+"\ntail\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replaceBetween(page, "new\n"); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(page)
	if string(text) != "head\n"+markBegin+"new\n"+markEnd+"\ntail\n" {
		t.Errorf("page %q", text)
	}
	if err := replaceBetween(filepath.Join(t.TempDir(), "none.md"), ""); err == nil {
		t.Error("a page that is not there was written")
	}
}

func TestFaults_HaveNamesAndTexts(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range faults {
		if seen[f.name] || f.text == "" || f.strike == nil || strings.ContainsAny(f.name, " ,*") {
			t.Errorf("fault %q", f.name)
		}
		seen[f.name] = true
	}
	for _, spec := range []string{"kill-*,none", "none"} {
		o := options{}
		if err := o.pick(spec); err != nil || len(o.faults) == 0 {
			t.Errorf("%s: %d faults, %v", spec, len(o.faults), err)
		}
	}
	if err := (&options{}).pick("no-such"); err == nil {
		t.Error("an unknown fault was taken")
	}
}

func TestOutdated_NeverTheNewest(t *testing.T) {
	for _, c := range []struct {
		names  []string
		newest string
		keep   int
		want   []string
	}{
		{[]string{"1", "2", "3"}, "3", 2, []string{"1"}},
		{[]string{"1", "2", "8", "9"}, "2", 2, []string{"8", "9"}},
		{[]string{"1"}, "1", 2, nil},
	} {
		if got := outdated(slices.Clone(c.names), c.newest, c.keep); !slices.Equal(got, c.want) {
			t.Errorf("of %v with %s: %v", c.names, c.newest, got)
		}
	}
}

func TestCheckpoints_TornOnesArePassedOver(t *testing.T) {
	dir := t.TempDir()
	for step := range 3 {
		if _, err := saveCheckpoint(dir, checkpoint{Step: 1, State: "s"}, 3+step); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := saveCheckpoint(dir, checkpoint{Step: 2, State: "t"}, 3); err != nil {
		t.Fatal(err)
	}
	names := checkpointFiles(dir)
	if err := damage(names[len(names)-1], "flipped", func(n int) int { return n / 2 }); err != nil {
		t.Fatal(err)
	}
	if c, fresh, err := latestCheckpoint(dir); err != nil || fresh || c.Step != 1 {
		t.Errorf("%+v, fresh %v, %v", c, fresh, err)
	}
}
