package index

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// lookEvery is how often it is asked what the streams hold.
const lookEvery = 5 * time.Second

// headersLate is how long the ledger waits for headers that do not come.
const headersLate = 5 * time.Second

// Follow reads ROLLOUTS and LEDGER into the index from where it is, and what comes,
// until ctx ends. begun is called once there is something to list, ready once all
// that was there at first is read.
func (x *Index) Follow(ctx context.Context, c *bus.Conn, begun, ready func()) error {
	rollouts, err := x.look(ctx, c)
	if err != nil {
		return err
	}
	ledger, err := bus.StreamState(ctx, c, x.cfg.Run, subjects.Ledger)
	if err != nil {
		return err
	}
	x.mu.RLock()
	from, entry := max(x.rollouts+1, rollouts.FirstSeq, 1), max(x.ledger+1, ledger.FirstSeq, 1)
	x.mu.RUnlock()
	if rollouts.LastSeq > from+longLog {
		if err := x.peek(ctx, c, rollouts.LastSeq, ledger.LastSeq, recentMessages, recentEntries); err != nil {
			return err
		}
	}
	begun()
	var open atomic.Int32
	open.Store(2)
	caughtUp := func() {
		if open.Add(-1) == 0 {
			x.mu.Lock()
			x.caughtUp, x.recent, x.around = true, nil, nil
			x.mu.Unlock()
			ready()
		}
	}
	came := make(chan struct{}, 1) // headers did
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return x.followHeaders(ctx, c, from, rollouts.LastSeq, came, caughtUp) })
	g.Go(func() error { return x.followEntries(ctx, c, entry, ledger.LastSeq, rollouts.LastSeq, came, caughtUp) })
	g.Go(func() error {
		for {
			if err := pause(ctx, lookEvery); err != nil {
				return err
			}
			if _, err := x.look(ctx, c); err != nil && !passing(err) {
				return err
			}
		}
	})
	return g.Wait()
}

// followHeaders folds ROLLOUTS in, and calls caughtUp at what was its last sequence.
func (x *Index) followHeaders(ctx context.Context, c *bus.Conn, next, last uint64, came chan<- struct{}, caughtUp func()) error {
	stream := x.cfg.Run.StreamName(subjects.Rollouts)
	tell := func() {
		select {
		case came <- struct{}{}:
		default:
		}
	}
	fold := func(msgs []bus.HeaderMsg) error {
		x.front.standBack(ctx)
		x.Messages(msgs)
		tell()
		next = msgs[len(msgs)-1].Seq + 1
		return nil
	}
	err := upTo(ctx, next, last, func(seen func(uint64) error) error {
		return bus.EachHeaders(ctx, c, stream, "", next, func(msgs []bus.HeaderMsg) error {
			if err := fold(msgs); err != nil {
				return err
			}
			return seen(next - 1)
		})
	})
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.rollouts = max(x.rollouts, last) // nobody waits for what is lost
	x.mu.Unlock()
	tell()
	caughtUp()
	return bus.FollowStreamHeaders(ctx, c, stream, "", max(next, last+1), fold)
}

// followEntries folds LEDGER in, and calls caughtUp at what was its last sequence.
// An entry waits for the headers that there were at first, up to a sequence.
func (x *Index) followEntries(ctx context.Context, c *bus.Conn, next, last, headers uint64, came <-chan struct{}, caughtUp func()) error {
	stream := x.cfg.Run.StreamName(subjects.Ledger)
	fold := func(m *bus.Msg) error {
		next = m.Seq + 1
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return nil // `headrace audit` is for those that cannot be read
		}
		if err := x.reached(ctx, min(e.Rollouts, headers), came); err != nil {
			return err
		}
		x.front.standBack(ctx)
		x.Entry(m.Seq, &e)
		return nil
	}
	err := upTo(ctx, next, last, func(seen func(uint64) error) error {
		return bus.Each(ctx, c, stream, "", next, func(m *bus.Msg) error {
			if err := fold(m); err != nil {
				return err
			}
			return seen(m.Seq)
		})
	})
	if err != nil {
		return err
	}
	caughtUp()
	return bus.Follow(ctx, c, stream, "", next, fold)
}

// reached waits until the headers are read that an entry of the ledger follows
// from: what it names then has its row. It waits for no message that has not come
// yet, and at most a while.
func (x *Index) reached(ctx context.Context, seq uint64, came <-chan struct{}) error {
	for {
		x.mu.RLock()
		there := x.rollouts >= seq || seq < x.purged
		x.mu.RUnlock()
		if there {
			return nil
		}
		late := time.NewTimer(headersLate)
		select {
		case <-came:
			late.Stop()
		case <-late.C:
			return nil
		case <-ctx.Done():
			late.Stop()
			return ctx.Err()
		}
	}
}

func passing(err error) bool {
	return errors.Is(err, bus.ErrTimeout) || errors.Is(err, bus.ErrUnreachable)
}

// look asks what ROLLOUTS holds.
func (x *Index) look(ctx context.Context, c *bus.Conn) (jetstream.StreamState, error) {
	state, err := bus.StreamState(ctx, c, x.cfg.Run, subjects.Rollouts)
	if err != nil {
		return state, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.purged, x.target = max(state.FirstSeq, 1), state.LastSeq
	if x.left = 0; state.LastSeq > x.rollouts {
		x.left = state.LastSeq - max(x.rollouts, state.FirstSeq-min(1, state.FirstSeq)) + x.seen
	}
	return state, nil
}
