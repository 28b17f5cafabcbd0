package trainerbridge

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Retention says what of ROLLOUTS may be purged.
type Retention struct {
	// Keep is all (nothing is purged, producers wait when it is full), window (the
	// oldest goes once it is 70 % full) or checkpoint (what no kept checkpoint
	// needs goes at once). Empty means all.
	Keep string
	// Steps are the newest trained steps whose trajectories stay in any case.
	Steps int
	// Checkpoints is how many the trainer keeps on disk: it may have to go back to
	// the oldest of them. 0 means 1.
	Checkpoints int
}

// The values of Retention.Keep.
const (
	KeepAll        = "all"
	KeepWindow     = "window"
	KeepCheckpoint = "checkpoint"
)

// How full ROLLOUTS is when something happens, as parts of its limit.
const (
	fillPurge   = .7 // the oldest begins to go
	fillRelief  = .6 // until so much is left
	fillWarn    = .8
	fillPressed = .9 // what only an audit, or a torn checkpoint, would need goes too
)

const defaultJanitorEvery = 5 * time.Second

// janitor purges ROLLOUTS where nobody needs it any more. It follows the trainer
// by its events; as long as it does not know all of them, it does nothing.
type janitor struct {
	conn      *bus.Conn
	run       subjects.Run
	keep      Retention
	manifests *manifests
	inspected func() uint64 // every sequence up to it; MaxUint64 without an inspector
	connected func() bool   // a trainer is
	instance  string
	every     time.Duration
	stats     *stats
	log       zerolog.Logger

	events      chan *bus.Msg
	seen        uint64 // in WEIGHTS
	incarnation int
	committed   subjects.Step
	saved       []subjects.Step // checkpoints that are on disk, oldest first
	warned      bool
}

func (b *bridge) newJanitor() *janitor {
	j := &janitor{conn: b.Conn, run: b.Run, keep: b.Retention, manifests: b.manifests, connected: b.training, instance: b.Instance,
		every: b.janitorEvery, stats: b.stats, log: b.Log, events: make(chan *bus.Msg, 64), inspected: func() uint64 { return math.MaxUint64 }}
	j.keep.Checkpoints = max(j.keep.Checkpoints, 1)
	if b.Inspect {
		j.inspected = b.inspector.done.Load
	}
	return j
}

// training reports whether the first rank's trainer is connected.
func (b *bridge) training() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[0] != nil
}

// follow hands the trainer's events to tidy until ctx ends.
func (j *janitor) follow(ctx context.Context) error {
	err := bus.Follow(ctx, j.conn, j.run.StreamName(subjects.Weights), "", 1, func(m *bus.Msg) error {
		select {
		case j.events <- m:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return wrap("follow the trainer's events", err)
}

// tidy looks at ROLLOUTS from time to time, and after every checkpoint. What
// the bus refuses is tried again.
func (j *janitor) tidy(ctx context.Context) error {
	tick := time.NewTicker(j.every)
	defer tick.Stop()
	for {
		look := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-j.events:
			look = j.note(m)
		case <-tick.C:
			look = true
		}
		if !look {
			continue
		}
		if err := j.sweep(ctx); err != nil && ctx.Err() == nil {
			j.log.Debug().Err(err).Msg("look after rollouts")
		}
	}
}

// note folds an event; it reports a new checkpoint.
func (j *janitor) note(m *bus.Msg) (checkpoint bool) {
	j.seen = m.Seq
	switch m.Subject {
	case j.run.WeightsSubject(subjects.EventResumed):
		var e subjects.ResumedEvent
		if subjects.DecodeMessage(m.Data, &e) == nil && e.Incarnation >= j.incarnation {
			j.incarnation, j.committed = e.Incarnation, e.Step
			j.saved = slices.DeleteFunc(j.saved, func(s subjects.Step) bool { return s >= e.Step })
			j.save(e.Step)
		}
	case j.run.WeightsSubject(subjects.EventCommit):
		var e subjects.CommitEvent
		if subjects.DecodeMessage(m.Data, &e) == nil && e.Incarnation == j.incarnation {
			j.committed = e.Step
		}
	case j.run.WeightsSubject(subjects.EventCheckpoint):
		var e subjects.CheckpointEvent
		if subjects.DecodeMessage(m.Data, &e) == nil && e.Incarnation == j.incarnation {
			j.save(e.Step)
			return true
		}
	}
	return false
}

// save notes a checkpoint; the oldest beyond those that are kept is gone.
func (j *janitor) save(step subjects.Step) {
	if n := len(j.saved); step > 0 && (n == 0 || step > j.saved[n-1]) {
		j.saved = append(j.saved, step)
	}
	if n := len(j.saved); n > j.keep.Checkpoints {
		j.saved = j.saved[n-j.keep.Checkpoints:]
	}
}

// sweep purges what may and should go.
func (j *janitor) sweep(ctx context.Context) error {
	config, state, err := bus.StreamLimits(ctx, j.conn, j.run, subjects.Rollouts)
	if err != nil {
		return err
	}
	fill := 0.0
	if config.MaxBytes > 0 {
		fill = float64(state.Bytes) / float64(config.MaxBytes)
	}
	j.stats.rolloutBytes.Store(int64(state.Bytes))
	j.stats.rolloutLimit.Store(config.MaxBytes)
	below, step, err := j.bound(ctx, fill)
	if err != nil {
		return err
	}
	if j.keep.Keep == KeepWindow && state.Bytes > 0 {
		spare := float64(state.Bytes) - fillRelief*float64(config.MaxBytes)
		below = min(below, state.FirstSeq+uint64(max(0, spare/float64(state.Bytes)*float64(state.Msgs))))
	}
	j.warn(fill, below > state.FirstSeq)
	if below <= state.FirstSeq || state.Msgs == 0 {
		return nil
	}
	if sound, err := bus.StreamSound(ctx, j.conn, j.run, subjects.Rollouts); err != nil || !sound {
		return err
	}
	e := subjects.PurgedEvent{V: subjects.SchemaVersion, Below: below, Step: step, Incarnation: j.incarnation, Writer: j.instance, At: time.Now().UnixNano()}
	if err := bus.PurgeRollouts(ctx, j.conn, j.run, &e); err != nil {
		return err
	}
	j.log.Info().Uint64("below", below).Int64("checkpoint", int64(step)).Int("full_percent", int(100*fill)).Msg("purged rollouts that no checkpoint needs")
	return nil
}

// bound is the sequence below which nobody needs ROLLOUTS, and the checkpoint
// that says so; 0: unknown, or everything is kept. The trainer that resumes needs
// the batches behind its checkpoint, a grouper that starts what came since its
// state; bridges need the bodies of both. Only when the stream is all but full,
// the newest checkpoint and what groups have open decide alone.
func (j *janitor) bound(ctx context.Context, fill float64) (below uint64, step subjects.Step, err error) {
	if j.keep.Keep == "" || j.keep.Keep == KeepAll || j.keep.Keep == KeepWindow && fill < fillPurge || len(j.saved) == 0 || !j.connected() {
		return 0, 0, nil
	}
	events, err := bus.StreamState(ctx, j.conn, j.run, subjects.Weights)
	if err != nil || events.LastSeq > j.seen {
		return 0, 0, err
	}
	low, folded := j.manifests.marks()
	step = j.saved[0]
	if fill >= fillPressed {
		step = j.saved[len(j.saved)-1]
	}
	if below, err = j.manifests.watermark(ctx, step+1); err != nil {
		return 0, 0, err
	}
	if fill < fillPressed {
		below = min(below, folded+1)
	}
	if j.keep.Steps > 0 {
		window, err := j.manifests.watermark(ctx, max(1, j.committed-subjects.Step(j.keep.Steps)+1))
		if err != nil {
			return 0, 0, err
		}
		below = min(below, window)
	}
	if done := j.inspected(); done < math.MaxUint64 {
		below = min(below, done+1)
	}
	return min(below, low), step, nil
}

// warn says before it is a problem that ROLLOUTS fills up, and when it is one
// what to do.
func (j *janitor) warn(fill float64, purging bool) {
	switch {
	case fill < fillWarn:
		j.warned = false
		return
	case purging || j.warned:
		return
	}
	j.warned = true
	var what string
	switch n := len(j.saved); {
	case j.keep.Keep == "" || j.keep.Keep == KeepAll:
		what = "retention.keep is all: producers will wait. Raise its limit, or set retention.keep"
	case n == 0:
		what = "no checkpoint has been saved: lower trainer.checkpoint_every, or raise its limit"
	default:
		what = fmt.Sprintf("what lies behind the checkpoints of steps %d to %d is needed: lower trainer.checkpoint_every, or raise its limit", j.saved[0], j.saved[n-1])
	}
	j.log.Warn().Int("full_percent", int(100*fill)).Msg("rollouts fills up and nothing of it may go: " + what)
}
