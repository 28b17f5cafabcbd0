package retentiontest

import (
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	trainerbridge "github.com/headrace/headrace/trainer-bridge"
)

func check(r *audit.Report, name string) *audit.Check {
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// purged wants an audit that passes and says what it can no longer prove.
func (w *world) purged(r *audit.Report) {
	w.Helper()
	if !r.OK || r.Lost+r.Duplicated+r.Mixed+r.Short > 0 || !r.Training.Balanced {
		w.Errorf("audit: %s %+v, training %+v", r.Verdict, r.Discrepancies, r.Training)
	}
	if r.Cut.Purged == 0 || check(r, audit.CheckBodies).Unproven == 0 || !strings.Contains(strings.Join(r.Notes, " "), "are purged, says the run's log") {
		w.Errorf("audit does not say what is no longer provable: purged below %d, %v", r.Cut.Purged, r.Notes)
	}
	if c := check(r, audit.CheckLedger); c.Checked == 0 || c.Unproven == 0 {
		w.Errorf("entries decided again: %d, not provable %d", c.Checked, c.Unproven)
	}
}

// TestJanitor_PurgesWhatNobodyNeedsAndTheRunGoesOn: several times its limit
// passes through ROLLOUTS; then grouper, bridge and trainer are killed, and the
// trainer comes back with the oldest checkpoint that it keeps.
func TestJanitor_PurgesWhatNobodyNeedsAndTheRunGoesOn(t *testing.T) {
	w := newWorld(t, bus.ServerOptions{}, 200)
	keep := trainerbridge.Retention{Keep: trainerbridge.KeepWindow, Checkpoints: 2}
	w.start(w.produce)
	group, bridge := w.start(w.group), w.start(w.bridge(keep))
	c := w.train(0, 70, 5)
	w.until("a purge", func(_, first, _ uint64) bool { return first > 1 })
	w.purged(w.audit())
	w.must(c.Abort())
	group()
	bridge()
	w.start(w.group)
	w.start(w.bridge(keep))
	c = w.train(65, 130, 5) // it fell back to the last checkpoint but one
	w.purged(w.audit())
	w.must(c.Close("done"))
}

// TestJanitor_SlowTrainerHoldsProducersBackAndLosesNothing: ROLLOUTS is full
// while the trainer is away, producers wait; it comes back, and what a checkpoint
// covers makes room.
func TestJanitor_SlowTrainerHoldsProducersBackAndLosesNothing(t *testing.T) {
	w := newWorld(t, bus.ServerOptions{}, 120)
	w.cfg.MaxStaleness = new(60) // far ahead of the trainer, so that the stream fills up
	w.start(w.produce)
	w.start(w.group)
	w.start(w.bridge(trainerbridge.Retention{Keep: trainerbridge.KeepWindow, Checkpoints: 1}))
	w.until("a full stream", func(bytes, _, _ uint64) bool { return bytes > limit*98/100 })
	state, err := bus.StreamState(t.Context(), w.conn, run, subjects.Rollouts)
	w.must(err)
	if state.FirstSeq != 1 {
		t.Errorf("purged up to %d without a checkpoint", state.FirstSeq)
	}
	c := w.train(0, 40, 4)
	w.until("room", func(_, first, last uint64) bool { return first > 1 && last > state.LastSeq })
	w.steps(c, 41, 80, 4)
	w.purged(w.audit())
	w.must(c.Close("done"))
	if w.mu.Lock(); !w.blocked {
		t.Error("no producer was told that the stream is full")
	}
	w.mu.Unlock()
}

func TestJanitor_KeepsAllThatItIsToldToKeep(t *testing.T) {
	w := newWorld(t, bus.ServerOptions{}, 120)
	w.cfg.MaxStaleness = new(60)
	w.start(w.produce)
	w.start(w.group)
	w.start(w.bridge(trainerbridge.Retention{Keep: trainerbridge.KeepAll}))
	c := w.train(0, 20, 2)
	w.until("a full stream", func(bytes, _, _ uint64) bool { return bytes > limit*98/100 })
	w.must(c.Close("done"))
	r := w.audit()
	if !r.OK || r.Cut.Purged != 0 || len(r.Notes) > 0 {
		t.Errorf("audit: %s, purged below %d, %v", r.Verdict, r.Cut.Purged, r.Notes)
	}
}

// TestJanitor_NewestStepsStay keeps the window that the user asked for.
func TestJanitor_NewestStepsStay(t *testing.T) {
	w := newWorld(t, bus.ServerOptions{}, 200)
	w.start(w.produce)
	w.start(w.group)
	w.start(w.bridge(trainerbridge.Retention{Keep: trainerbridge.KeepCheckpoint, Steps: 10}))
	c := w.train(0, 40, 1)
	w.until("a purge", func(_, first, _ uint64) bool { return first > 1 })
	r := w.audit()
	w.purged(r)
	w.must(c.Abort())
	w.train(30, 40, 1) // a replay of the newest ten
}

// TestJanitor_PartsOfBodiesStay: bodies in parts that lie astride of watermarks.
func TestJanitor_PartsOfBodiesStay(t *testing.T) {
	w := newWorld(t, bus.ServerOptions{MaxPayload: 16 << 10}, 100)
	w.large = 5
	w.start(w.produce)
	w.start(w.group)
	w.start(w.bridge(trainerbridge.Retention{Keep: trainerbridge.KeepCheckpoint}))
	c := w.train(0, 60, 1)
	w.until("a purge", func(_, first, _ uint64) bool { return first > 1 })
	w.purged(w.audit())
	w.must(c.Close("done"))
	if s, err := bus.StreamState(t.Context(), w.conn, run, subjects.DeadLetter); err != nil || s.LastSeq > 0 {
		t.Errorf("%d dead letters: %v", s.LastSeq, err)
	}
}
