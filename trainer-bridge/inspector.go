package trainerbridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// inspector reads every bundle of ROLLOUTS once: what no trainer could use goes
// to DEADLETTER, the rest to the cache, and the grouper hears how far it got.
type inspector struct {
	conn    *bus.Conn
	run     subjects.Run
	vocab   int
	bodies  *bodies
	stats   *stats
	log     zerolog.Logger
	onEvent func(Event)

	known map[grave]bool // dead-lettered before this start
	done  atomic.Uint64  // every sequence up to it is inspected
	moved chan struct{}  // holds one: done has changed
}

func (in *inspector) inspect(ctx context.Context) error {
	from, err := in.start(ctx)
	if err == nil {
		in.known, err = in.graves(ctx)
	}
	if err != nil {
		return fmt.Errorf("start inspection: %w", err)
	}
	in.advance(from - 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return in.announce(ctx) })
	g.Go(func() error {
		err := bus.FollowBundles(ctx, in.conn, in.run, from, func(m *bus.Msg, b *bus.Bundle, err error) error {
			return in.message(ctx, m, b, err)
		})
		if err != nil {
			return fmt.Errorf("inspect rollouts: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// start is the first sequence that an open group may need.
func (in *inspector) start(ctx context.Context) (uint64, error) {
	head, err := bus.Last(ctx, in.conn, in.run.StreamName(subjects.Ledger), in.run.LedgerSubject())
	if errors.Is(err, bus.ErrNotFound) {
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	var e subjects.Entry
	if err := subjects.DecodeMessage(head.Data, &e); err != nil {
		return 0, fmt.Errorf("read ledger entry %d: %w", head.Seq, err)
	}
	return max(e.Low, 1), nil
}

func (in *inspector) advance(seq uint64) {
	in.done.Store(seq)
	select {
	case in.moved <- struct{}{}:
	default:
	}
}

// message inspects one message. An error of its own is the bus's; whatever the
// message holds is dealt with here.
func (in *inspector) message(ctx context.Context, m *bus.Msg, opened *bus.Bundle, fault error) error {
	if m.Skipped > 0 {
		in.log.Warn().Uint64("seq", m.Seq).Uint64("skipped", m.Skipped).Msg("rollouts has a gap")
	}
	in.stats.inspectedBytes.Add(int64(len(m.Data)))
	if fault != nil {
		if err := in.bury(ctx, m, bus.WholeMessage, "", m.Data, fault); err != nil {
			return err
		}
		in.advance(m.Seq)
		return nil
	}
	b := newBundle(opened)
	keep := false
	for i := range b.Items {
		v, fault := b.view(i, in.vocab)
		in.stats.inspected.Add(1)
		if fault == nil {
			keep = keep || v.Kind == subjects.Train && v.Status.Trained()
			continue
		}
		if err := in.reject(ctx, m, b, i, fault); err != nil {
			return err
		}
	}
	if keep {
		in.bodies.put(b)
	}
	in.advance(m.Seq)
	return nil
}

// reject buries one trajectory: its bytes, or the whole message where they
// cannot be told apart.
func (in *inspector) reject(ctx context.Context, m *bus.Msg, b *bundle, i int, fault error) error {
	data, id := b.Raw(i), ""
	if len(data) == 0 {
		data = b.Data
	}
	if e := &b.Items[i].Entry; e.Group != "" {
		id = e.ID()
	}
	b.Items[i].Err = fault
	return in.bury(ctx, m, i, id, data, fault)
}

const (
	announceEvery = 250 * time.Millisecond // whatever happens: a hint may be lost
	announcePause = time.Millisecond       // at least this between two
)

// announce publishes how far the inspection is: at once when that changes,
// coalesced under load, and again from time to time.
func (in *inspector) announce(ctx context.Context) error {
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-in.moved:
		case <-tick.C:
		}
		text := strconv.AppendUint(nil, in.done.Load(), 10)
		if err := in.conn.NC().Publish(in.run.InspectedSubject(), text); err != nil {
			in.log.Debug().Err(err).Msg("announce inspection") // repeated soon
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(announcePause):
		}
	}
}
