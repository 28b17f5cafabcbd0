package trace

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// window finds the times that are drawn.
func (r *reader) window(ctx context.Context) error {
	end, err := r.end(ctx)
	if err != nil {
		return err
	}
	if r.o.First > 0 {
		return r.steps(ctx, end)
	}
	last := r.o.Last
	if last <= 0 {
		last = DefaultLast
	}
	r.from, r.to = end-int64(last), end
	return r.book.open(ctx)
}

// end is when something last happened, by the server's clock. Gauges do not
// count: those of a bridge go on when the run is over. In a copy of a run that
// is when it happened in the original.
func (r *reader) end(ctx context.Context) (int64, error) {
	var end time.Time
	for _, s := range []subjects.Stream{subjects.Ledger, subjects.Rollouts, subjects.Weights} {
		state, err := bus.StreamState(ctx, r.conn, r.run, s)
		if err != nil {
			return 0, err
		}
		if state.Msgs > 0 && state.LastTime.After(end) {
			end = state.LastTime
		}
	}
	if end.IsZero() {
		return 0, fmt.Errorf("nothing has happened in it yet")
	}
	m, err := bus.Last(ctx, r.conn, r.run.StreamName(subjects.Ledger), r.run.LedgerSubject())
	var e subjects.Entry
	switch {
	case errors.Is(err, bus.ErrNotFound):
	case err != nil:
		return 0, err
	case subjects.DecodeMessage(m.Data, &e) == nil && m.Time.Sub(time.Unix(0, e.At)).Abs() > copyAge:
		r.copied = true
		return e.At, nil
	}
	return end.UnixNano(), nil
}

// copyAge is how long after its decision an entry of the ledger is stored at
// most; beyond, the run is a copy, and the times of its messages say nothing.
const copyAge = 10 * time.Minute

// steps makes the window that of some steps: from the opening of the first group
// that is trained in them, or the first of them that the trainer waited for, to
// the commit of the last of them.
func (r *reader) steps(ctx context.Context, end int64) error {
	first, err := r.commit(ctx, r.o.First)
	if err != nil {
		return err
	}
	final, err := r.commit(ctx, r.o.Final)
	if err != nil {
		return err
	}
	r.to = end
	if final != nil {
		r.to = final.event.At
	}
	if err := r.book.around(ctx, first.at(end), final.at(end)); err != nil {
		return err
	}
	opened, found, err := r.book.opened(ctx, r.o.First, r.o.Final)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("it has no batch of steps %d to %d (`headrace show %s` says how far it is)", r.o.First, r.o.Final, r.run)
	}
	if r.from = opened; first != nil {
		if begun := first.event.At - nanos(first.event.TrainSeconds+first.event.WaitSeconds); r.from == 0 || begun < r.from {
			r.from = begun
		}
	}
	r.from = min(r.from, r.to)
	return nil
}

// committed is a commit and when it was stored; in a copy, when it was made.
type committed struct {
	event  subjects.CommitEvent
	stored int64
}

func (c *committed) at(otherwise int64) int64 {
	if c == nil {
		return otherwise
	}
	return c.stored
}

// commit finds the commit of a step in some twenty looks, or the one that follows
// where that is not in the log; nil when the trainer has not come so far. Steps
// grow by one from commit to commit, and fall where a trainer came back from its
// checkpoint, so wherever they rise from below a step to it or more, that is it.
func (r *reader) commit(ctx context.Context, step subjects.Step) (*committed, error) {
	state, err := bus.StreamState(ctx, r.conn, r.run, subjects.Weights)
	if err != nil || state.Msgs == 0 {
		return nil, err
	}
	var found *committed
	var failure error
	sort.Search(int(state.LastSeq-state.FirstSeq+1), func(i int) bool {
		c, err := r.commitFrom(ctx, state.FirstSeq+uint64(i))
		if err != nil || failure != nil {
			failure = errors.Join(failure, err)
			return true
		}
		if c == nil || c.event.Step < step {
			return c == nil
		}
		found = c
		return true
	})
	return found, failure
}

// commitFrom is the first commit from a sequence on that can be read.
func (r *reader) commitFrom(ctx context.Context, seq uint64) (*committed, error) {
	for {
		m, err := bus.Next(ctx, r.conn, r.run.StreamName(subjects.Weights), r.run.WeightsSubject(subjects.EventCommit), seq)
		if errors.Is(err, bus.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		r.read(1)
		c := &committed{stored: m.Time.UnixNano()}
		if subjects.DecodeMessage(m.Data, &c.event) == nil {
			if r.copied {
				c.stored = c.event.At
			}
			return c, nil
		}
		seq = m.Seq + 1
	}
}

// nanos is a duration in seconds as nanoseconds; none that is no number.
func nanos(seconds float64) int64 {
	if !(seconds > 0) || seconds > 1e8 {
		return 0
	}
	return int64(seconds * 1e9)
}
