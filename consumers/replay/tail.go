package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Tail hands chosen trajectories to fn as they come, without their bodies, until
// the run ends, whose reason it returns, or ctx does. Those of steps come when the
// ledger says that the step trains on them. It reads headers and the ledger, holds
// no lease and acknowledges nothing: the run does not notice.
func Tail(ctx context.Context, c *bus.Conn, run subjects.Run, f Filter, fn func(*Record) error) (end string, err error) {
	if err := f.Validate(); err != nil {
		return "", err
	}
	stream, follow := subjects.Rollouts, tailAll
	if !f.Steps.Any() {
		stream, follow = subjects.Ledger, tailSteps
	}
	state, err := bus.StreamState(ctx, c, run, stream)
	if err != nil {
		return "", err
	}
	g, ctx := errgroup.WithContext(ctx)
	l := &last{at: state.LastSeq}
	g.Go(func() error {
		why, err := bus.AwaitRunEnd(ctx, c, run)
		if err != nil {
			return ignoreMissing(err) // a run without a record has no end
		}
		state, err := bus.StreamState(ctx, c, run, stream)
		if err != nil {
			return err
		}
		end = why
		return l.end(state.LastSeq)
	})
	g.Go(func() error { return follow(ctx, c, run, f, state.LastSeq+1, l, fn) })
	if err := g.Wait(); !errors.Is(err, errEnd) {
		return "", err
	}
	return end, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, bus.ErrNotFound) || errors.Is(err, bus.ErrNoStream) {
		return nil
	}
	return err
}

// last is how far a tap has come, and where it ends once that is known.
type last struct {
	mu    sync.Mutex
	at    uint64
	final uint64
	ended bool
}

// reached notes a sequence; the error is errEnd at the end.
func (l *last) reached(seq uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at = max(l.at, seq); l.ended && l.at >= l.final {
		return errEnd
	}
	return nil
}

func (l *last) end(final uint64) error {
	l.mu.Lock()
	l.final, l.ended = final, true
	l.mu.Unlock()
	return l.reached(0)
}

func tailAll(ctx context.Context, c *bus.Conn, run subjects.Run, f Filter, from uint64, l *last, fn func(*Record) error) error {
	return bus.FollowHeaders(ctx, c, run, from, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			m := &msgs[i]
			var chosen []*Record
			recordsOf(&f, nil, m.Seq, m.Time, m.Header, func(r *Record) { chosen = append(chosen, r) })
			if err := errors.Join(each(chosen, fn), l.reached(m.Seq)); err != nil {
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
func tailSteps(ctx context.Context, c *bus.Conn, run subjects.Run, f Filter, from uint64, l *last, fn func(*Record) error) error {
	return bus.Follow(ctx, c, run.StreamName(subjects.Ledger), "", from, func(m *bus.Msg) error {
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
		return l.reached(m.Seq)
	})
}

// headers hands over what lies at the addresses, in order, from headers alone.
func headers(ctx context.Context, c *bus.Conn, run subjects.Run, f Filter, steps stepOf, fn func(*Record) error) error {
	low, high := steps.bounds()
	if high == 0 {
		return nil
	}
	err := bus.EachHeaders(ctx, c, run.StreamName(subjects.Rollouts), "", low, func(msgs []bus.HeaderMsg) error {
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
