// Package tap feeds a board from a run's streams.
//
// One idea explains its shape: nothing in the run can tell that it is there. It
// reads with consumers of its own that acknowledge nothing and asks the server
// for sizes; it publishes nothing. The ledger and the weights events come first,
// as far as they go, then the gauges from as far back as TELEMETRY has them:
// what a gauge meant then can only be said by who knows the steps of then.
package tap

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const (
	sizesEvery  = time.Second      // of the queues
	othersEvery = 10 * time.Second // of the other streams
)

// Follow folds a run's streams into the board until ctx ends. caughtUp, if not
// nil, is called once, when all that was there at the start is folded in.
func Follow(ctx context.Context, c *bus.Conn, run subjects.Run, b *board.Board, caughtUp func()) error {
	return FollowBehind(ctx, c, run, b, caughtUp, func() {})
}

// FollowBehind is Follow that calls standBack before each decision it folds in, which
// may wait for those who need the connection more.
func FollowBehind(ctx context.Context, c *bus.Conn, run subjects.Run, b *board.Board, caughtUp, standBack func()) error {
	about(ctx, c, run, b)
	g, ctx := errgroup.WithContext(ctx)
	decided := make(chan struct{}, 2)
	for _, s := range []subjects.Stream{subjects.Ledger, subjects.Weights} {
		t := tail{conn: c, run: run, stream: s, filter: run.Filter(s), board: b, before: standBack}
		g.Go(func() error { return t.follow(ctx, func() { decided <- struct{}{} }) })
	}
	g.Go(func() error {
		if !wait(ctx, decided, 2) {
			return ctx.Err()
		}
		return telemetry(ctx, c, run, b, caughtUp)
	})
	g.Go(func() error { return look(ctx, c, run, b) })
	g.Go(func() error {
		err := bus.WatchEngines(ctx, c, run, func(list []subjects.EngineRecord) error { b.Engines(list); return nil })
		return optional(ctx, err)
	})
	return g.Wait()
}

// telemetry follows the gauges, and of the spans the trainer's.
func telemetry(ctx context.Context, c *bus.Conn, run subjects.Run, b *board.Board, caughtUp func()) error {
	g, ctx := errgroup.WithContext(ctx)
	told := make(chan struct{}, 2)
	for _, filter := range telemetryFilters(run) {
		t := tail{conn: c, run: run, stream: subjects.Telemetry, filter: filter, board: b}
		g.Go(func() error { return t.follow(ctx, func() { told <- struct{}{} }) })
	}
	g.Go(func() error {
		if wait(ctx, told, 2) && caughtUp != nil {
			caughtUp()
		}
		return nil
	})
	return g.Wait()
}

func telemetryFilters(run subjects.Run) []string {
	return []string{run.TelemetrySubject("*", "*"), run.SpanSubject("trainer", "*")}
}

func wait(ctx context.Context, events <-chan struct{}, n int) bool {
	for range n {
		select {
		case <-events:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Read folds in what the streams hold now, and returns.
func Read(ctx context.Context, c *bus.Conn, run subjects.Run, b *board.Board) error {
	about(ctx, c, run, b)
	tails := []tail{{stream: subjects.Ledger, filter: run.Filter(subjects.Ledger)}, {stream: subjects.Weights, filter: run.Filter(subjects.Weights)}}
	for _, filter := range telemetryFilters(run) {
		tails = append(tails, tail{stream: subjects.Telemetry, filter: filter})
	}
	for _, t := range tails {
		t.conn, t.run, t.board = c, run, b
		if err := t.read(ctx); err != nil {
			return err
		}
	}
	if list, err := bus.Engines(ctx, c, run); err == nil {
		b.Engines(list)
	}
	return optional(ctx, sizes(ctx, c, run, b, subjects.Streams()))
}

// tail reads one stream, in order.
type tail struct {
	conn   *bus.Conn
	run    subjects.Run
	stream subjects.Stream
	filter string
	board  *board.Board
	next   uint64 // sequence
	before func() // each message; nil: nothing
}

// follow folds the stream in, without end, and calls reached once what was
// there is folded in.
func (t *tail) follow(ctx context.Context, reached func()) error {
	if err := t.read(ctx); err != nil {
		return err
	}
	reached()
	return bus.Follow(ctx, t.conn, t.run.StreamName(t.stream), t.filter, t.next, t.fold)
}

// read folds in what is there.
func (t *tail) read(ctx context.Context) error {
	t.next = max(t.next, 1)
	return bus.Each(ctx, t.conn, t.run.StreamName(t.stream), t.filter, t.next, t.fold)
}

func (t *tail) fold(m *bus.Msg) error {
	if t.before != nil {
		t.before()
	}
	t.next = m.Seq + 1
	t.board.Fold(t.stream, m.Subject, m.Data, m.Time)
	return nil
}

// about takes the run's record over, where the reader may see it.
func about(ctx context.Context, c *bus.Conn, run subjects.Run, b *board.Board) {
	if r, err := bus.LookupRun(ctx, c, run); err == nil {
		b.About(r)
	}
}

// look asks what the streams hold. Who may not ask does without.
func look(ctx context.Context, c *bus.Conn, run subjects.Run, b *board.Board) error {
	tick := time.NewTicker(sizesEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		which := []subjects.Stream{subjects.Tasks, subjects.Rollouts}
		if n%int(othersEvery/sizesEvery) == 0 {
			which = subjects.Streams()
		}
		err := sizes(ctx, c, run, b, which)
		if errors.Is(err, bus.ErrPermission) {
			return nil
		}
		if err := optional(ctx, err); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func sizes(ctx context.Context, c *bus.Conn, run subjects.Run, b *board.Board, which []subjects.Stream) error {
	found := map[subjects.Stream]board.Size{}
	for _, s := range which {
		state, err := bus.StreamState(ctx, c, run, s)
		if err != nil {
			return err
		}
		found[s] = board.Size{Messages: state.Msgs, Bytes: state.Bytes}
	}
	b.Streams(found)
	return nil
}

// optional is the end of ctx, or nothing: what the error was of can be done without.
func optional(ctx context.Context, err error) error {
	if err != nil {
		return ctx.Err()
	}
	return nil
}
