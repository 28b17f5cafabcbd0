package ui

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/consumers/board/tap"
	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/consumers/ui/index"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// view is an open run: its connection, and the pictures that are fed from it.
type view struct {
	*Opened
	run    subjects.Run
	record *subjects.RunRecord // nil: it has none
	board  *board.Board
	index  *index.Index
	drawn  chan struct{} // closed when the board has caught up
	begun  chan struct{} // closed when the index has something to list
	listed chan struct{} // closed when it has caught up
	ended  chan struct{} // closed when the feeds are over
	stop   context.CancelFunc
	asked  chan struct{} // closed when somebody asked for a list
	wanted chan struct{} // closed when somebody searched
	ask    func()
	want   func()
	marks  marks
	shared shared
	// browsers listen to it, without holding it if it is stopped.
	browsers atomic.Int32
}

// busy reports whether a browser waits for what is still to be read.
func (v *view) busy() bool {
	return v.browsers.Load() > 0 && (!closed(v.drawn) || !closed(v.listed) || closed(v.wanted) && v.index.Unread())
}

// marks are how far the streams were that a board is made of.
type marks struct{ ledger, weights, telemetry uint64 }

// make connects to the run and starts to read it.
func (w *watched) make(ctx context.Context) (*view, error) {
	opened, err := w.s.o.Runs.Open(ctx, w.run)
	if err != nil {
		return nil, err
	}
	v := &view{Opened: opened, run: w.run, drawn: make(chan struct{}), begun: make(chan struct{}), listed: make(chan struct{}), ended: make(chan struct{}), asked: make(chan struct{}), wanted: make(chan struct{})}
	v.ask = sync.OnceFunc(func() { close(v.asked) })
	v.want = sync.OnceFunc(func() { close(v.wanted) })
	if err := v.prepare(ctx, w); err != nil {
		opened.Close()
		return nil, err
	}
	var feeds context.Context
	feeds, v.stop = context.WithCancel(w.s.ctx)
	w.s.wg.Go(func() {
		defer close(v.ended)
		if err := v.feed(feeds); err != nil && feeds.Err() == nil {
			w.fail(err)
			w.s.o.Log.Warn().Err(err).Str("run", string(w.run)).Msg("reading a run ended")
		}
	})
	return v, nil
}

// prepare makes the pictures, or takes those over that still hold.
func (v *view) prepare(ctx context.Context, w *watched) error {
	var err error
	if v.marks.ledger, err = lastSeq(ctx, v.Conn, v.run, subjects.Ledger); err != nil {
		if errors.Is(err, bus.ErrNoStream) || errors.Is(err, bus.ErrNotFound) {
			return notFound("no run %s on this bus: `headrace runs` lists what there is", v.run)
		}
		return err
	}
	for s, mark := range map[subjects.Stream]*uint64{subjects.Weights: &v.marks.weights, subjects.Telemetry: &v.marks.telemetry} {
		if *mark, err = lastSeq(ctx, v.Conn, v.run, s); err != nil {
			return err
		}
	}
	if v.record, err = bus.LookupRun(ctx, v.Conn, v.run); err != nil {
		v.record = nil // of another version, or none: its streams say enough
	}
	old := w.last
	if old != nil && (old.record == nil || v.record == nil || old.record.Created != v.record.Created) {
		old = nil // another run of that name
	}
	if old != nil {
		v.index = old.index
		if closed(old.wanted) {
			v.want()
		}
	} else {
		v.index = index.New(w.indexConfig(ctx, v))
	}
	if old != nil && old.Stopped && v.Stopped && closed(old.drawn) && old.marks == v.marks {
		v.board = old.board
		close(v.drawn)
		return nil
	}
	c := w.s.o.Board
	c.Run = v.run
	v.board = board.New(c)
	return nil
}

func (w *watched) indexConfig(ctx context.Context, v *view) index.Config {
	c := index.Config{Run: w.run, TextBytes: textBytes / w.s.o.MostRuns * 2}
	c.Key, _ = bus.LeaseKey(ctx, v.Conn, w.run) // a viewer may not read it
	var recipe struct {
		Grouper struct {
			GroupSize int `json:"group_size"`
		} `json:"grouper"`
		Environment struct {
			Name string `json:"name"`
		} `json:"environment"`
		Environments []struct{} `json:"environments"`
	}
	if v.record != nil && json.Unmarshal(v.record.Recipe, &recipe) == nil && recipe.Grouper.GroupSize <= 1<<12 {
		c.GroupSize, c.Environment, c.Environments = recipe.Grouper.GroupSize, recipe.Environment.Name, len(recipe.Environments)
	}
	return c
}

const textBytes = 128 << 20 // of word signatures

func lastSeq(ctx context.Context, c *bus.Conn, run subjects.Run, s subjects.Stream) (uint64, error) {
	state, err := bus.StreamState(ctx, c, run, s)
	return state.LastSeq, err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// feed reads the run into the pictures until ctx ends: the board, then the index,
// unless somebody wants that at once.
func (v *view) feed(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case <-v.drawn:
		case <-v.asked:
		case <-ctx.Done():
			return ctx.Err()
		}
		return v.index.Follow(ctx, v.Conn, func() { close(v.begun) }, func() { close(v.listed) })
	})
	if !closed(v.drawn) {
		g.Go(func() error {
			return tap.FollowBehind(ctx, v.Conn, v.run, v.board, func() { close(v.drawn) }, func() { v.index.StandBack(ctx) })
		})
	}
	g.Go(func() error {
		select {
		case <-v.wanted:
			return v.index.Read(ctx, v.fetch)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return g.Wait()
}

// knowing is the index that knows what became of a group: the whole, or, until that is
// read, one of what the log has around it.
func (v *view) knowing(ctx context.Context, group string) *index.Index {
	if closed(v.listed) || v.index.Decided(group) {
		return v.index
	}
	if around := v.index.Around(ctx, v.Conn, group); around != nil {
		return around
	}
	if _, _, ok := v.index.Group(group); !ok {
		await(ctx, v.listed, findPatience)
	}
	return v.index
}

// Bounds on what one reader of bodies has in memory.
const (
	fetchWindow = 8 << 20
	mostBody    = 64 << 20
)

func (v *view) fetch(ctx context.Context, list []subjects.Address, fn func(int, *show.Body, error) error) error {
	return show.FetchAll(ctx, v.Conn, v.run, bus.FetchConfig{WindowBytes: fetchWindow, MaxBodyBytes: mostBody}, list, fn)
}
