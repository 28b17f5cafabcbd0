package audit_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// clean wants a report without a discrepancy and with everything proved.
func clean(t *testing.T, r *audit.Report) {
	t.Helper()
	text, _ := json.MarshalIndent(r, "", " ")
	for _, c := range r.Checks {
		if c.Unproven > 0 || c.Checked == 0 {
			t.Errorf("check %s: %d checked, %d unproven", c.Name, c.Checked, c.Unproven)
		}
	}
	if !r.OK || !r.Training.Balanced || !r.Evaluation.Balanced {
		t.Errorf("not clean: %s", text)
	}
}

func TestRun_CleanRunPasses(t *testing.T) {
	w := newWorld(t, natstest.Loopback(t), "clean", policy(12))
	r := w.play().audit()
	clean(t, r)
	if r.Training.Used == 0 || r.Training.Dropped["failed"] == 0 || r.Cut.Ended != subjects.EndComplete {
		t.Errorf("account %+v, ended %q", r.Training, r.Cut.Ended)
	}
}

// TestRun_HardLivedRunPasses: two groupers that crash all the time, a producer
// that starts again and again under one name, malformed bodies, bodies in parts,
// duplicates, oversampling.
func TestRun_HardLivedRunPasses(t *testing.T) {
	cfg := policy(12)
	cfg.Oversample, cfg.MinGroupSize = 1, 2
	w := newWorld(t, natstest.Start(t, bus.ServerOptions{Sync: "10m", MaxPayload: 64 << 10}), "hard", cfg)
	w.spoil = func(t *subjects.Trajectory) {
		switch n := int(t.Seed)*31 + int(t.Slot)*7; {
		case n%23 == 0 && t.Attempt == 0 && len(t.Segments) > 0:
			t.Segments[0].Logprobs[3] = 2 // of a probability above 1
		case n%13 == 0:
			t.Messages = []subjects.Message{{Role: "user", Content: strings.Repeat("long ", 40_000)}}
		}
	}
	w.lives, w.again = 300*time.Millisecond, true
	r := w.play().audit()
	clean(t, r)
	for _, why := range []string{"failed", "rejected", "duplicate"} {
		if r.Training.Dropped[why] == 0 {
			t.Errorf("nothing was %s: %v", why, r.Training.Dropped)
		}
	}
}

// TestRun_LiveRunIsAuditedUpToItsHead audits all the time while the run goes on.
func TestRun_LiveRunIsAuditedUpToItsHead(t *testing.T) {
	w := newWorld(t, natstest.Loopback(t), "live", policy(60))
	done := make(chan struct{})
	go func() { defer close(done); w.play() }()
	for audits := 0; ; audits++ {
		r := w.audit()
		if !r.OK || !r.Training.Balanced || !r.Evaluation.Balanced {
			text, _ := json.MarshalIndent(r, "", " ")
			t.Fatalf("audit %d: %s", audits, text)
		}
		select {
		case <-done:
			if clean(t, w.audit()); audits < 3 {
				t.Errorf("only %d audits while it went on", audits)
			}
			return
		default:
		}
	}
}

// TestRun_LettersThatMadeRoomAreNoLoss: the oldest dead letters are purged, as the
// inspector does when there is no room for new ones.
func TestRun_LettersThatMadeRoomAreNoLoss(t *testing.T) {
	w := newWorld(t, natstest.Loopback(t), "room", policy(12))
	w.cfg.StateBytes = 20_000
	w.spoil = func(t *subjects.Trajectory) {
		if n := int(t.Seed)*31 + int(t.Slot)*7; n%11 == 0 && t.Attempt == 0 && len(t.Segments) > 0 {
			t.Segments[0].Logprobs[3] = 2
		}
	}
	w.play()
	clean(t, w.audit())
	state, err := bus.StreamState(t.Context(), w.conn, w.run, subjects.DeadLetter)
	w.must(err)
	w.must(bus.Purge(t.Context(), w.conn, w.run, subjects.DeadLetter, state.LastSeq/3))
	r := w.audit()
	if !r.OK || !r.Training.Balanced || !r.Evaluation.Balanced || r.Training.Dropped["rejected"] == 0 {
		t.Errorf("audit: %s %+v; %+v, %+v", r.Verdict, r.Discrepancies, r.Training, r.Evaluation)
	}
	for _, c := range r.Checks {
		if c.Name == audit.CheckLedger && (c.Checked == 0 || c.Unproven == 0) {
			t.Errorf("ledger: %d checked, %d unproven", c.Checked, c.Unproven)
		}
	}
}
