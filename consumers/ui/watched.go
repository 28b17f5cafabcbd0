package ui

import (
	"context"
	"net/http"
	"sync"
	"time"

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
