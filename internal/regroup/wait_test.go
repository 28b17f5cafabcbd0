package regroup_test

import (
	"math"
	"testing"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/regroup"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

// TestAccount_TheTrainersWaitIsWhatItsCommitsSay: of a run whose trainer publishes
// and saves behind its commits, which is no waiting, and starts twice. Regrouped
// under its own policy and compared with itself it has the same.
func TestAccount_TheTrainersWaitIsWhatItsCommitsSay(t *testing.T) {
	conn, run := natstest.Connect(t, natstest.InProcess(t)), subjects.Run("made-up")
	if _, err := synth.Write(t.Context(), conn, synth.Options{Run: run, Trajectories: 5000, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	said, starts := 0.0, 0
	err := bus.Each(t.Context(), conn, run.StreamName(subjects.Weights), run.WeightsSubject(subjects.EventCommit), 1, func(m *bus.Msg) error {
		var c subjects.CommitEvent
		err := subjects.DecodeMessage(m.Data, &c)
		if c.Incarnation == starts {
			said += c.WaitSeconds
		}
		starts = c.Incarnation
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	own, err := audit.PolicyOf(t.Context(), conn, run)
	if err != nil {
		t.Fatal(err)
	}
	r, err := regroup.Run(t.Context(), conn, run, regroup.Options{Own: own, Policy: own.Grouper})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Recorded.WaitSeconds; starts != 2 || said < 5 || math.Abs(got-said) > said/20 || got != r.Regrouped.WaitSeconds {
		t.Errorf("waited %.2f s, regrouped %.2f, in %d starts; its commits say %.2f", got, r.Regrouped.WaitSeconds, starts, said)
	}
	d, err := regroup.Diff(t.Context(), regroup.Side{Conn: conn, Run: run}, regroup.Side{Conn: conn, Run: run})
	if err != nil || d.Ledgers[0].WaitSeconds != r.Recorded.WaitSeconds || d.Ledgers[1].WaitSeconds != r.Recorded.WaitSeconds {
		t.Errorf("compared with itself %.2f and %.2f, want %.2f: %v", d.Ledgers[0].WaitSeconds, d.Ledgers[1].WaitSeconds, r.Recorded.WaitSeconds, err)
	}
}
