package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Tail hands chosen trajectories to fn as they come, without their bodies, until
// ctx ends. Those of steps come when the ledger says that the step trains on them.
// It reads headers and the ledger, holds no lease and acknowledges nothing: the run
// does not notice.
func Tail(ctx context.Context, c *bus.Conn, run subjects.Run, f Filter, fn func(*Record) error) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if !f.Steps.Any() {
		return tailSteps(ctx, c, run, f, fn)
	}
	state, err := bus.StreamState(ctx, c, run, subjects.Rollouts)
	if err != nil {
		return err
	}
	return bus.FollowHeaders(ctx, c, run, state.LastSeq+1, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			m := &msgs[i]
			var chosen []*Record
			recordsOf(&f, nil, m.Seq, m.Time, m.Header, func(r *Record) { chosen = append(chosen, r) })
			if err := each(chosen, fn); err != nil {
				return err
			}
		}
		return nil
	})
}

func each(records []*Record, fn func(*Record) error) error {
	for _, r := range records {
		if err := fn(r); err != nil {
			return err
		}
	}
	return nil
}

// tailSteps follows the ledger, and looks up the headers of what it trains on.
func tailSteps(ctx context.Context, c *bus.Conn, run subjects.Run, f Filter, fn func(*Record) error) error {
	state, err := bus.StreamState(ctx, c, run, subjects.Ledger)
	if err != nil {
		return err
	}
	return bus.Follow(ctx, c, run.StreamName(subjects.Ledger), "", state.LastSeq+1, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return fmt.Errorf("read ledger entry %d: %w", m.Seq, err)
		}
		for i := range e.Batches {
			if !f.Steps.Has(e.Batches[i].Step) {
				continue
			}
			steps := stepOf{}
			steps.add(&e.Batches[i])
			if err := headers(ctx, c, run, f, steps, fn); err != nil {
				return err
			}
		}
		return nil
	})
}

// headers hands over what lies at the addresses, in order, from headers alone.
func headers(ctx context.Context, c *bus.Conn, run subjects.Run, f Filter, steps stepOf, fn func(*Record) error) error {
	low, high := steps.bounds()
	if high == 0 {
		return nil
	}
	err := bus.FollowHeaders(ctx, c, run, low, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			m := &msgs[i]
			var chosen []*Record
			recordsOf(&f, steps, m.Seq, m.Time, m.Header, func(r *Record) { chosen = append(chosen, r) })
			if err := each(chosen, fn); err != nil {
				return err
			}
			if m.Seq >= high {
				return errEnd
			}
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}
