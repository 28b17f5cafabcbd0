package trace

import (
	"context"
	"fmt"
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
	return nil
}

// end is when something last happened, by the server's clock. Gauges do not
// count: those of a bridge go on when the run is over.
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
	return end.UnixNano(), nil
}

// steps makes the window that of some steps: from the opening of the first group
// that is trained in them to the commit of the last of them.
func (r *reader) steps(ctx context.Context, end int64) error {
	opened := map[subjects.GroupID]int64{} // of groups that wait for their batch
	found := false
	r.to = end
	err := r.entries(ctx, func(e *subjects.Entry) {
		for i := range e.Verdicts {
			if v := &e.Verdicts[i]; v.Outcome.Trained() {
				opened[v.Group] = v.Opened
			} else {
				delete(opened, v.Group)
			}
		}
		for i := range e.Batches {
			b := &e.Batches[i]
			drawn := b.Step >= r.o.First && b.Step <= r.o.Final
			for _, g := range b.Groups {
				if at, known := opened[g.Group]; drawn && known && (r.from == 0 || at < r.from) {
					r.from = at
				}
				delete(opened, g.Group)
			}
			found = found || drawn
		}
	})
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("it has no batch of steps %d to %d (`headrace show %s` says how far it is)", r.o.First, r.o.Final, r.run)
	}
	return r.each(ctx, subjects.Weights, func(m *bus.Msg) {
		var c subjects.CommitEvent
		if m.Subject != r.run.WeightsSubject(subjects.EventCommit) || subjects.DecodeMessage(m.Data, &c) != nil {
			return
		}
		if start := c.At - nanos(c.TrainSeconds+c.WaitSeconds); c.Step == r.o.First && (r.from == 0 || start < r.from) {
			r.from = start
		}
		if c.Step == r.o.Final {
			r.to = c.At
		}
	})
}

// nanos is a duration in seconds as nanoseconds; none that is no number.
func nanos(seconds float64) int64 {
	if !(seconds > 0) || seconds > 1e8 {
		return 0
	}
	return int64(seconds * 1e9)
}
