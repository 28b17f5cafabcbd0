package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/consumers/board/tap"
	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/consumers/ui/index"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// watched is a run that somebody looks at, or looked at lately.
type watched struct {
	s   *Server
	run subjects.Run

	opening sync.Mutex // held while it is opened or shut
	mu      sync.Mutex
	holders int
	used    time.Time
	view    *view     // nil: it is not open
	last    *view     // the one before, whose pictures may still hold
	failed  time.Time // when it could not be opened, or reading it ended
	failure error
}

// view is an open run: its connection, and the pictures that are fed from it.
type view struct {
	*Opened
	run    subjects.Run
	record *subjects.RunRecord // nil: it has none
	board  *board.Board
	index  *index.Index
	drawn  chan struct{} // closed when the board has caught up
	listed chan struct{} // closed when the index has
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

// failurePause is how long a run that cannot be opened is not tried again.
const failurePause = 2 * time.Second

// hold opens the run, if it is not open; release must be called.
func (s *Server) hold(ctx context.Context, r *http.Request) (v *view, release func(), err error) {
	run := subjects.Run(r.PathValue("run"))
	if err := run.Validate(); err != nil {
		return nil, nil, notFound("%w", err)
	}
	s.mu.Lock()
	w := s.runs[run]
	if w == nil {
		w = &watched{s: s, run: run}
		s.runs[run] = w
	}
	w.mu.Lock()
	w.holders++
	w.mu.Unlock()
	s.mu.Unlock()
	release = sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.holders--
		w.used = time.Now()
	})
	if v, err = w.open(ctx); err != nil {
		release()
		return nil, nil, err
	}
	return v, release, nil
}

// open gives the open run.
func (w *watched) open(ctx context.Context) (*view, error) {
	w.opening.Lock()
	defer w.opening.Unlock()
	if v := w.current(); v != nil && !v.over() {
		return v, nil
	}
	w.shutNow()
	if err := w.recent(); err != nil {
		return nil, err
	}
	v, err := w.make(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.fail(err)
		}
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.view, w.last = v, nil
	return v, nil
}

// recent is why the run could not be read a moment ago.
func (w *watched) recent() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.failed) < failurePause {
		return w.failure
	}
	return nil
}

func (w *watched) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed, w.failure = time.Now(), err
}

func (w *watched) current() *view {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view
}

func (v *view) over() bool {
	select {
	case <-v.ended:
		return true
	default:
		return v.Local && !v.Conn.NC().IsConnected()
	}
}

// shut closes the connection and keeps the pictures.
func (w *watched) shut() {
	w.opening.Lock()
	defer w.opening.Unlock()
	w.shutNow()
}

func (w *watched) shutNow() {
	w.mu.Lock()
	v := w.view
	if w.view = nil; v != nil {
		w.last = v
	}
	w.mu.Unlock()
	if v != nil {
		v.stop()
		<-v.ended
		v.Close()
	}
}

// make connects to the run and starts to read it.
func (w *watched) make(ctx context.Context) (*view, error) {
	opened, err := w.s.o.Runs.Open(ctx, w.run)
	if err != nil {
		return nil, err
	}
	v := &view{Opened: opened, run: w.run, drawn: make(chan struct{}), listed: make(chan struct{}), ended: make(chan struct{}), asked: make(chan struct{}), wanted: make(chan struct{})}
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
	}
	if v.record != nil && json.Unmarshal(v.record.Recipe, &recipe) == nil && recipe.Grouper.GroupSize <= 1<<12 {
		c.GroupSize, c.Environment = recipe.Grouper.GroupSize, recipe.Environment.Name
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
		return v.index.Follow(ctx, v.Conn, func() { close(v.listed) })
	})
	if !closed(v.drawn) {
		g.Go(func() error { return tap.Follow(ctx, v.Conn, v.run, v.board, func() { close(v.drawn) }) })
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

// Bounds on what one reader of bodies has in memory.
const (
	fetchWindow = 8 << 20
	mostBody    = 64 << 20
)

func (v *view) fetch(ctx context.Context, list []subjects.Address, fn func(int, *show.Body, error) error) error {
	return show.FetchAll(ctx, v.Conn, v.run, bus.FetchConfig{WindowBytes: fetchWindow, MaxBodyBytes: mostBody}, list, fn)
}

// janitor closes what nobody looks at, what has ended, and forgets what there is
// no room for.
func (s *Server) janitor() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-tick.C:
			for _, w := range s.idle(now) {
				w.shut()
			}
			s.forget()
		}
	}
}

// idle are the runs to be closed.
func (s *Server) idle(now time.Time) (list []*watched) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.runs {
		w.mu.Lock()
		if v := w.view; v != nil && w.holders == 0 {
			after := s.o.Idle
			if v.Stopped {
				after = s.o.IdleStopped
			}
			if v.over() || now.Sub(w.used) > after && !v.busy() {
				list = append(list, w)
			}
		}
		w.mu.Unlock()
	}
	return list
}

// forget drops the runs that were looked at longest ago.
func (s *Server) forget() {
	for w := s.victim(); w != nil; w = s.victim() {
		w.shut()
	}
}

// victim takes out the run that nobody looks at for the longest time, if there are
// too many, or they take too much.
func (s *Server) victim() *watched {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *watched
	bytes := 0
	for _, w := range s.runs {
		w.mu.Lock()
		if v := cmp.Or(w.view, w.last); v != nil {
			bytes += v.index.Bytes()
		}
		if w.holders == 0 && (oldest == nil || w.used.Before(oldest.used)) {
			oldest = w
		}
		w.mu.Unlock()
	}
	if oldest == nil || len(s.runs) <= s.o.MostRuns && (bytes <= s.o.MostBytes || len(s.runs) == 1) {
		return nil
	}
	delete(s.runs, oldest.run)
	return oldest
}
