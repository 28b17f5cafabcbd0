package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/headrace/headrace/consumers/board"
)

// list answers with the runs there are.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	runs, err := s.o.Runs.List(r.Context())
	if err != nil {
		return err
	}
	if runs == nil {
		runs = []Listed{}
	}
	for i := range runs {
		s.enrich(&runs[i])
	}
	return answer(w, r, map[string][]Listed{"runs": runs})
}

// enrich adds what an open run's board knows.
func (s *Server) enrich(l *Listed) {
	s.mu.Lock()
	w := s.runs[l.Run]
	s.mu.Unlock()
	if w == nil {
		return
	}
	w.mu.Lock()
	v := w.view
	if v == nil {
		v = w.last
	}
	w.mu.Unlock()
	if v == nil || !closed(v.drawn) {
		return
	}
	state := v.board.State(time.Now())
	l.Step, l.MaxSteps, l.Recipe = &state.Step.Committed, &state.Step.Max, state.Recipe
	if l.End == "" {
		l.End = state.End
	}
	steps := v.board.Steps(max(0, state.Step.Committed-recentSteps))
	if mean, ok := steps.Recent(recentSteps, steps.Reward); ok {
		l.Reward = board.Number(mean)
	}
	if !l.Created.Known() {
		l.Created = state.Started
	}
}

const recentSteps = 10

// How long an answer waits for a picture that is still being made.
const (
	boardPatience = 1500 * time.Millisecond // then it is sent as far as it is
	statePatience = 200 * time.Millisecond  // of which a state says that it is of the log's beginning
	beginPatience = time.Second
	listPatience  = 150 * time.Millisecond
	findPatience  = 20 * time.Second // for one thing that is not there yet
)

func await(ctx context.Context, c <-chan struct{}, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return closed(c)
}

// pictured holds a run whose board has caught up, or got as far as patience goes.
func (s *Server) pictured(r *http.Request, patience time.Duration) (*view, func(), error) {
	v, release, err := s.hold(r.Context(), r)
	if err == nil {
		await(r.Context(), v.drawn, patience)
	}
	return v, release, err
}

// listing holds a run whose index is read, at least from now on.
func (s *Server) listing(r *http.Request) (*view, func(), error) {
	v, release, err := s.hold(r.Context(), r)
	if err == nil {
		v.ask()
	}
	return v, release, err
}

func (s *Server) state(w http.ResponseWriter, r *http.Request) error {
	v, release, err := s.pictured(r, statePatience)
	if err != nil {
		return err
	}
	defer release()
	data, _, err := v.shared.state(v.board, !closed(v.drawn), time.Now())
	if err != nil {
		return err
	}
	return send(w, r, data)
}

// shared is the state as it was within the last second, made once for all who ask.
type shared struct {
	mu    sync.Mutex
	at    time.Time
	data  []byte
	still []byte // what it would be if no time had passed
	turn  int64  // counts the changes
	early bool   // it is of the log's beginning
}

// stated is a state as it is sent.
type stated struct {
	board.State
	Reading bool `json:"reading"` // the log is still being read: it is of its beginning
}

const sharedFor = 900 * time.Millisecond

// state is the run's state in JSON, and a number that grows when it changes by
// more than the time that has passed.
func (p *shared) state(b *board.Board, reading bool, now time.Time) ([]byte, int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.data != nil && p.early == reading && now.Sub(p.at) < sharedFor {
		return p.data, p.turn, nil
	}
	state := b.State(now)
	data, err := json.Marshal(stated{state, reading})
	if err != nil {
		return nil, 0, err
	}
	still := data
	if !state.Live { // of which no second is like another
		still, err = json.Marshal(stated{b.State(b.Heard().Add(time.Hour)), reading})
		if err != nil {
			return nil, 0, err
		}
	}
	if !bytes.Equal(still, p.still) {
		p.turn++
	}
	p.at, p.data, p.still, p.early = now, data, still, reading
	return data, p.turn, nil
}

func (s *Server) steps(w http.ResponseWriter, r *http.Request) error {
	from, err := whole(r, "from", 0)
	if err != nil {
		return err
	}
	v, release, err := s.pictured(r, boardPatience)
	if err != nil {
		return err
	}
	defer release()
	return answer(w, r, columns(v.board.Steps(from)))
}

func columns(v any) any { return map[string]any{"columns": v} }

const defaultSpan = 600

func (s *Server) series(w http.ResponseWriter, r *http.Request) error {
	span, err := whole(r, "span", defaultSpan)
	if err != nil {
		return err
	}
	v, release, err := s.pictured(r, boardPatience)
	if err != nil {
		return err
	}
	defer release()
	return answer(w, r, columns(v.board.Series(int(min(max(span, 1), 1<<20)))))
}

// whole reads a number of the query.
func whole(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, wrong(name, text, "a number from 0 on")
	}
	return n, nil
}
