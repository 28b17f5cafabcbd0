package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/headrace/headrace/consumers/board"
)

const (
	eventEvery  = time.Second
	quietEvery  = 15 * time.Second // a comment, so that proxies keep the line
	lookAgain   = 5 * time.Second  // whether a run that was stopped is played again
	slowBrowser = 30 * time.Second // that takes nothing for so long is gone
)

// events sends what happens in a run, as it is now: a state each second in which it
// changed, the steps that are new or changed, and a point of the series a second.
// Nothing is kept for a browser: one that is slow gets the next state, and of steps
// and points all since what it had last, as far as the board remembers them.
func (s *Server) events(w http.ResponseWriter, r *http.Request) error {
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	v, release, err := s.pictured(r, statePatience)
	if err != nil {
		return err
	}
	defer release()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return nil
	}
	l := listener{w: w, rc: http.NewResponseController(w), view: v}
	l.pass()
	if l.tell(time.Now()) != nil {
		return nil
	}
	v.browsers.Add(1)
	defer v.browsers.Add(-1)
	if v.Stopped {
		release() // who goes on with the run needs its store
	}
	l.listen(s, r)
	return nil
}

func (s *Server) enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients >= mostClients {
		return nil, busy(fmt.Sprintf("%d browsers are listening already: close one", mostClients))
	}
	s.clients++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.clients--
	}, nil
}

// listener is one browser.
type listener struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	view *view

	id    int64
	turn  int64 // of the state it has
	step  int64 // the mark of the steps it has
	point int64 // the last point it has
	said  time.Time
}

// listen goes on until the browser or the server leaves, or the run is another.
func (l *listener) listen(s *Server, r *http.Request) {
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	looked := time.Now()
	over := l.view.ended
	if l.view.Stopped {
		over = nil // its store is closed when all of it is read
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			_ = l.send("bye", []byte("{}")) // it is gone either way
			return
		case <-over:
			return // the browser comes again, and finds the run as it is then
		case now := <-tick.C:
			if closed(l.view.ended) && !closed(l.view.drawn) {
				return // it was closed before it was read
			}
			if l.view.Stopped && now.Sub(looked) > lookAgain {
				if looked = now; s.o.Runs.Live(l.view.run) {
					return
				}
			}
			if l.tell(now) != nil {
				return
			}
		}
	}
}

// pass takes steps and points for sent: the browser asks for those that there are.
func (l *listener) pass() {
	_, l.step = l.view.board.StepsSince(1 << 62)
	l.point = l.view.board.Series(1).N
}

// tell sends what is new; of a log that is still being read the state is enough.
func (l *listener) tell(now time.Time) error {
	reading := !closed(l.view.drawn)
	data, turn, err := l.view.shared.state(l.view.board, reading, now)
	if err == nil && turn != l.turn {
		l.turn = turn
		err = l.send("state", data)
	}
	if err != nil {
		return err
	}
	if reading {
		l.pass()
		return nil
	}
	steps, mark := l.view.board.StepsSince(l.step)
	if l.step = mark; steps.Len() > 0 {
		if err := l.json("steps", columns(steps)); err != nil {
			return err
		}
	}
	for _, p := range l.view.board.PointsSince(l.point) {
		if err := l.pointed(p); err != nil {
			return err
		}
	}
	if now.Sub(l.said) > quietEvery {
		return l.write([]byte(": still here\n\n"))
	}
	return nil
}

func (l *listener) pointed(p board.Point) error {
	l.point = p.N
	return l.json("point", p)
}

func (l *listener) json(kind string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.send(kind, data)
}

// send sends one event; JSON has no line break.
func (l *listener) send(kind string, data []byte) error {
	l.id++
	return l.write(fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", l.id, kind, data))
}

func (l *listener) write(b []byte) error {
	l.said = time.Now()
	_ = l.rc.SetWriteDeadline(l.said.Add(slowBrowser)) // a recorder has none
	if _, err := l.w.Write(b); err != nil {
		return err
	}
	return l.rc.Flush()
}
