package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/subjects"
)

// recording is a run that is copied.
type recording struct {
	conn   *bus.Conn
	run    subjects.Run
	record *subjects.RunRecord
	recipe *recipe.Recipe
	// until ends the copy with the batch of this step; 0: all.
	until subjects.Step
	// look: the copy is to be looked at, with what the trainer and the engines
	// said, and not to be trained from.
	look bool

	changed bool              // the recipe is another one
	anew    []*subjects.Entry // instead of the ledger
}

// openRecording wants a run of which nothing is gone.
func openRecording(ctx context.Context, c *bus.Conn, run subjects.Run, log zerolog.Logger) (*recording, error) {
	m, err := join(ctx, c, run, log)
	if err != nil {
		return nil, err
	}
	for _, s := range []subjects.Stream{subjects.Rollouts, subjects.Ledger} {
		state, err := bus.StreamState(ctx, c, run, s)
		if err != nil {
			return nil, err
		}
		if state.Msgs != state.LastSeq {
			return nil, fmt.Errorf("run %s cannot be copied: %d messages of %s are purged or lost", run, state.LastSeq-state.Msgs, run.StreamName(s))
		}
	}
	return &recording{conn: c, run: run, record: m.record, recipe: m.recipe}, nil
}

// begin makes the run that the copy goes to, with the same recipe, and the same
// key, so that its trajectories pass for those of its tasks.
func (r *recording) begin(ctx context.Context, to *bus.Conn, name subjects.Run) error {
	if _, err := bus.LookupRun(ctx, to, name); err == nil {
		return fmt.Errorf("%w: there is a run %s already; choose another name", ErrRunExists, name)
	} else if !errors.Is(err, bus.ErrNotFound) && !errors.Is(err, bus.ErrNoStream) {
		return err
	}
	if err := bus.EnsureStreams(ctx, to, name, r.recipe.StreamOptions()); err != nil {
		return err
	}
	if err := bus.CopyLeaseKey(ctx, r.conn, r.run, to, name); err != nil {
		return err
	}
	record := *r.record
	if r.changed {
		anew, err := newRecord(name, r.recipe)
		if err != nil {
			return err
		}
		record.Recipe, record.Hash, record.Version = anew.Recipe, anew.Hash, anew.Version
	}
	record.Run, record.Created, record.Ended = name, time.Now().UnixNano(), ""
	record.CopyOf = r.run
	return bus.CreateRun(ctx, to, &record)
}

// regroup gives the copy another policy and the ledger that it makes.
func (r *recording) regroup(policy grouper.Config, ledger []*subjects.Entry) error {
	r.recipe.Grouper, r.recipe.Trainer.Steps = policy, int(policy.Steps)
	if err := r.recipe.Validate(); err != nil {
		return fmt.Errorf("a run to train from cannot have this policy: %w", err)
	}
	r.changed, r.anew = true, ledger
	return nil
}

// stream copies a stream from its first message up to a sequence: messages keep
// theirs, which the ledger names them by. prepare gives a message's id and headers.
func (r *recording) stream(ctx context.Context, to *bus.Conn, name subjects.Run, s subjects.Stream, first, last uint64, prepare func(*bus.Msg) (id string, h nats.Header, err error)) error {
	if last == 0 {
		return nil
	}
	from, into := strings.TrimSuffix(r.run.Filter(s), ">"), strings.TrimSuffix(name.Filter(s), ">")
	err := bus.Each(ctx, r.conn, r.run.StreamName(s), "", first, func(m *bus.Msg) error {
		id, header, err := prepare(m)
		if err != nil {
			return err
		}
		seq, err := bus.Send(ctx, to, into+strings.TrimPrefix(m.Subject, from), id, header, m.Data)
		switch {
		case err != nil:
			return err
		case seq != m.Seq:
			return fmt.Errorf("copy %s to %s: message %d became %d: somebody else writes there", r.run.StreamName(s), name, m.Seq, seq)
		case seq >= last:
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// asItIs prepares a message that is the same in the copy.
func asItIs(m *bus.Msg) (id string, h nats.Header, err error) {
	return fmt.Sprintf("copy/%d", m.Seq), portable(m.Header), nil
}

// letters copies DEADLETTER, and leaves out what is gone from it.
func (r *recording) letters(ctx context.Context, to *bus.Conn, name subjects.Run) error {
	state, err := bus.StreamState(ctx, r.conn, r.run, subjects.DeadLetter)
	if err != nil || state.Msgs == 0 {
		return err
	}
	next := uint64(1)
	return r.stream(ctx, to, name, subjects.DeadLetter, state.FirstSeq, state.LastSeq, func(m *bus.Msg) (string, nats.Header, error) {
		for ; next < m.Seq; next++ {
			if _, err := bus.SkipLetter(ctx, to, name, next); err != nil {
				return "", nil, err
			}
		}
		next++
		header := portable(m.Header)
		if header.Get(subjects.HeaderSource) == r.run.StreamName(subjects.Rollouts) {
			header.Set(subjects.HeaderSource, name.StreamName(subjects.Rollouts))
		}
		return bus.CopyID(m.Header, m.Seq), header, nil
	})
}

// weights copies WEIGHTS, up to an event or, with the whole run, to its end. Of a
// run that has lost some it copies none.
func (r *recording) weights(ctx context.Context, to *bus.Conn, name subjects.Run, last uint64) error {
	state, err := bus.StreamState(ctx, r.conn, r.run, subjects.Weights)
	if err != nil || state.Msgs != state.LastSeq {
		return err
	}
	if r.until == 0 {
		last = state.LastSeq
	}
	return r.stream(ctx, to, name, subjects.Weights, 1, last, asItIs)
}

// portable are a message's headers without the server's.
func portable(h nats.Header) nats.Header {
	out := maps.Clone(h)
	maps.DeleteFunc(out, func(k string, _ []string) bool { return strings.HasPrefix(k, "Nats-") })
	return out
}

// target is the ledger that a copy writes.
type target struct {
	conn *bus.Conn
	run  subjects.Run
	head uint64
	last subjects.Entry // without its decisions
}

func (t *target) append(ctx context.Context, e *subjects.Entry) error {
	data, err := subjects.EncodeMessage(e)
	if err != nil {
		return err
	}
	t.head, err = bus.Append(ctx, t.conn, t.run.LedgerSubject(), nil, data, t.head)
	t.last = subjects.Entry{V: e.V, At: e.At, Writer: e.Writer, Rollouts: e.Rollouts, Weights: e.Weights, Letters: e.Letters, Low: e.Low, End: e.End}
	return err
}

// finish says in the ledger that there is no more.
func (t *target) finish(ctx context.Context, text string) error {
	if t.last.End != "" {
		return nil
	}
	e := t.last
	e.V, e.End, e.EndText = subjects.SchemaVersion, subjects.EndCancelled, text
	return t.append(ctx, &e)
}

// ledger copies LEDGER, and ends it. It returns the last step.
func (r *recording) ledger(ctx context.Context, to *bus.Conn, name subjects.Run) (last subjects.Step, err error) {
	t := &target{conn: to, run: name}
	if r.changed {
		for _, e := range r.anew {
			for i := range e.Batches {
				last = e.Batches[i].Step
			}
			if err := t.append(ctx, e); err != nil {
				return 0, err
			}
		}
		return last, t.finish(ctx, fmt.Sprintf("rollouts of run %s, grouped anew", r.run))
	}
	err = readAll(ctx, r.conn, r.run, subjects.Ledger, func(m *bus.Msg) {
		var e subjects.Entry
		if err != nil || r.until > 0 && last >= r.until {
			return
		}
		if err = subjects.DecodeMessage(m.Data, &e); err != nil {
			err = fmt.Errorf("read ledger entry %d: %w", m.Seq, err)
			return
		}
		for i := range e.Batches {
			if last = e.Batches[i].Step; last == r.until {
				e.Batches, e.Evals, e.End, e.State = e.Batches[:i+1], nil, "", nil
				break
			}
		}
		err = t.append(ctx, &e)
	})
	if err == nil {
		err = t.finish(ctx, fmt.Sprintf("a copy of run %s as it was at step %d", r.run, last))
	}
	return last, err
}

// copyTo copies the recording into a new run. A trainer finds the same batches
// there; nothing more is played or grouped in it.
func (r *recording) copyTo(ctx context.Context, to *bus.Conn, name subjects.Run) (last subjects.Step, err error) {
	rollouts, weights := uint64(0), uint64(0)
	err = entries(ctx, r.conn, r.run, func(_ uint64, e *subjects.Entry) {
		if r.until == 0 || last < r.until {
			rollouts, weights = max(rollouts, e.Rollouts), max(weights, e.Weights)
		}
		for i := range e.Batches {
			last = e.Batches[i].Step
		}
	})
	if err == nil && last < r.until {
		err = fmt.Errorf("run %s has no batch of step %d: its last one is of step %d", r.run, r.until, last)
	}
	if err == nil {
		err = r.begin(ctx, to, name)
	}
	if err == nil {
		err = r.stream(ctx, to, name, subjects.Rollouts, 1, rollouts, asItIs)
	}
	if err == nil && r.look {
		err = r.weights(ctx, to, name, weights)
	}
	if err == nil {
		err = r.letters(ctx, to, name)
	}
	if err != nil {
		return 0, err
	}
	return r.ledger(ctx, to, name)
}
