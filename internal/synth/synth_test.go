package synth_test

import (
	"encoding/json"
	"testing"

	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/regroup"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

func written(t testing.TB, o synth.Options) (*bus.Conn, *synth.Report) {
	t.Helper()
	conn := natstest.Connect(t, natstest.InProcess(t))
	r, err := synth.Write(t.Context(), conn, o)
	if err != nil {
		t.Fatal(err)
	}
	return conn, r
}

func text(v any) string {
	b, _ := json.MarshalIndent(v, "", " ")
	return string(b)
}

// TestWrite_IsARunThatHolds: the audit proves it, its own policy gives its ledger
// byte for byte, and it has of everything that a reader may meet.
func TestWrite_IsARunThatHolds(t *testing.T) {
	conn, r := written(t, synth.Options{Run: "holds", Trajectories: 5000, Seed: 3})
	if r.Trajectories < 5000 || r.Trajectories > 7500 {
		t.Errorf("%d trajectories", r.Trajectories)
	}
	a, err := audit.Run(t.Context(), conn, r.Run, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !a.OK || a.Cut.Ended != subjects.EndComplete {
		t.Errorf("audit says %s", text(a))
	}
	own, err := audit.PolicyOf(t.Context(), conn, r.Run)
	if err != nil {
		t.Fatal(err)
	}
	g, err := regroup.Run(t.Context(), conn, r.Run, regroup.Options{Policy: own.Grouper})
	if err != nil {
		t.Fatal(err)
	}
	if !g.Own || !g.Sound || g.Entries == 0 || g.Same != g.Entries || g.Entries != r.Entries {
		t.Errorf("its own policy gives %s", text(g))
	}
	for _, s := range []subjects.Status{subjects.Succeeded, subjects.Truncated, subjects.Overlong, subjects.Failed, subjects.Aborted} {
		if r.Statuses[string(s)] == 0 {
			t.Errorf("no trajectory is %s", s)
		}
	}
	t.Log(text(r))
}

// TestWrite_SameSeedSameRun: equal digests; another seed, another.
func TestWrite_SameSeedSameRun(t *testing.T) {
	var sums []string
	for _, seed := range []int64{1, 1, 2} {
		conn, r := written(t, synth.Options{Run: "same", Trajectories: 2000, Seed: seed})
		var d replay.Digest
		if err := replay.Read(t.Context(), conn, r.Run, replay.Filter{}, func(rec *replay.Record) error { d.Add(rec); return nil }); err != nil {
			t.Fatal(err)
		}
		if d.Trajectories != r.Trajectories || d.Unreadable > 0 {
			t.Errorf("%d of %d trajectories, %d unreadable", d.Trajectories, r.Trajectories, d.Unreadable)
		}
		sums = append(sums, d.Sum())
	}
	if sums[0] != sums[1] || sums[1] == sums[2] {
		t.Errorf("digests %v", sums)
	}
}

func TestWrite_RefusesARunThatIsThere(t *testing.T) {
	conn, _ := written(t, synth.Options{Run: "there", Trajectories: 200})
	if _, err := synth.Write(t.Context(), conn, synth.Options{Run: "there"}); err == nil {
		t.Error("writes over a run")
	}
}
