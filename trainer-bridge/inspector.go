package trainerbridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// inspector reads every bundle of ROLLOUTS once: what no trainer could use goes
// to DEADLETTER, the rest to the cache, and the grouper hears how far it got. Of
// what counts for nothing (see [subjects.Gate]) it reads the headers.
type inspector struct {
	conn    *bus.Conn
	run     subjects.Run
	leased  bool // trajectories carry lease tokens
	vocab   int
	fits    func([]subjects.SegmentView) error
	fetch   *bus.Fetcher // of parts
	bodies  *bodies
	stats   *stats
	log     zerolog.Logger
	onEvent func(Event)

	gate    *subjects.Gate
	seen    seen
	garbage map[string]uint64 // by producer: what could not be read
	known   map[grave]bool    // dead-lettered before this start
	done    atomic.Uint64     // every sequence up to it is inspected
	letters atomic.Uint64     // DEADLETTER sequence of the newest rejection
	moved   chan struct{}     // holds one: done has changed
}

func (in *inspector) inspect(ctx context.Context) error {
	from, err := in.start(ctx)
	if err == nil {
		in.known, err = in.graves(ctx, from)
	}
	if err == nil {
		in.gate, err = in.newGate(ctx)
	}
	if err != nil {
		return fmt.Errorf("start inspection: %w", err)
	}
	in.garbage = map[string]uint64{}
	in.advance(from - 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return in.announce(ctx) })
	g.Go(func() error {
		err := bus.Follow(ctx, in.conn, in.run.StreamName(subjects.Rollouts), "", from, func(m *bus.Msg) error {
			return in.message(ctx, m)
		})
		if err != nil {
			return fmt.Errorf("inspect rollouts: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// newGate reads the run's lease key. A run that a version without one made has
// none, and its trajectories no tokens.
func (in *inspector) newGate(ctx context.Context) (*subjects.Gate, error) {
	if !in.leased {
		return subjects.NewGate(in.run, nil), nil
	}
	key, err := bus.LeaseKey(ctx, in.conn, in.run)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return nil, err
	}
	return subjects.NewGate(in.run, key), nil
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
func (in *inspector) message(ctx context.Context, m *bus.Msg) error {
	if m.Skipped > 0 {
		if below, err := bus.Purged(ctx, in.conn, in.run); err != nil || m.Seq > below {
			in.log.Warn().Uint64("seq", m.Seq).Uint64("skipped", m.Skipped).Msg("rollouts has a gap")
		}
	}
	in.stats.inspectedBytes.Add(int64(len(m.Data)))
	items, err := in.admit(ctx, m)
	if err == nil && items != nil {
		err = in.open(ctx, m, items)
	}
	if err == nil {
		in.advance(m.Seq)
	}
	return err
}

// open inspects the bodies of a message.
func (in *inspector) open(ctx context.Context, m *bus.Msg, items []bus.Item) error {
	data, err := in.fetch.Whole(ctx, m)
	var opened *bus.Bundle
	if err == nil {
		opened, err = bus.OpenItems(m.Seq, m.Header, data, items)
	}
	if errors.Is(err, bus.ErrMalformed) || errors.Is(err, bus.ErrNotFound) {
		in.stats.rejected.Add(1)
		return in.bury(ctx, in.letter(m, bus.WholeMessage, firstID(items), m.Data, err))
	}
	if err != nil {
		return err
	}
	opened.Time = m.Time
	b := newBundle(opened)
	keep := false
	for i := range b.Items {
		if turnedAway(b.Items[i].Err) {
			continue
		}
		v, fault := b.view(i, in.vocab)
		in.stats.inspected.Add(1)
		if fault == nil && v.Status.Trained() {
			fault = in.fits(v.Segments)
		}
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
	in.stats.rejected.Add(1)
	return in.bury(ctx, in.letter(m, i, id, data, fault))
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
		if err := in.conn.NC().PublishMsg(in.word()); err != nil {
			in.log.Debug().Err(err).Msg("announce inspection") // repeated soon
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(announcePause):
		}
	}
}

// word is what is announced: the sequence, and in a header how far DEADLETTER
// must be read to know of all that was rejected up to there.
func (in *inspector) word() *nats.Msg {
	m := nats.NewMsg(in.run.InspectedSubject())
	m.Data = strconv.AppendUint(nil, in.done.Load(), 10) // before the letters: those may be newer
	m.Header[subjects.HeaderLetters] = []string{strconv.FormatUint(in.letters.Load(), 10)}
	return m
}
