package ui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/consumers/ui"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

const (
	run   = subjects.Run("seen")
	token = "0123456789abcdef"
)

// place is where runs are in these tests: one bus.
type place struct {
	options bus.Options
	stopped bool
	opened  atomic.Int32  // connections that are open
	closed  chan struct{} // one was closed
	times   atomic.Int32
	live    atomic.Bool
}

func (p *place) List(context.Context) ([]ui.Listed, error) {
	return []ui.Listed{{Run: run, State: "stopped", Created: board.Unknown(), Reward: board.Unknown()}}, nil
}

func (p *place) Open(ctx context.Context, r subjects.Run) (*ui.Opened, error) {
	if r == "nowhere" {
		return nil, fmt.Errorf("%w: there is no run %s", ui.ErrNoRun, r)
	}
	conn, err := bus.Connect(ctx, p.options)
	if err != nil {
		return nil, err
	}
	p.opened.Add(1)
	p.times.Add(1)
	return &ui.Opened{Conn: conn, Stopped: p.stopped, Close: func() { conn.Close(); p.close() }}, nil //nolint:errcheck // a reader loses nothing
}

func (p *place) close() {
	p.opened.Add(-1)
	select {
	case p.closed <- struct{}{}:
	default: // it was said already, and not heard yet
	}
}

func (p *place) Live(subjects.Run) bool    { return p.live.Load() }
func (p *place) Flags(subjects.Run) string { return " --dir elsewhere" }

// world is a made-up run and a server of the page that shows it.
type world struct {
	*testing.T
	place *place
	admin *bus.Conn
	page  *ui.Server
	http  *httptest.Server
}

func newWorld(t *testing.T, trajectories int, o ui.Options, p *place) *world {
	t.Helper()
	w := &world{T: t, place: p}
	if p.options.InProcess == nil && p.options.URL == "" {
		srv := natstest.InProcess(t)
		p.options = srv.Options()
		w.admin = natstest.Connect(t, srv)
	}
	if trajectories > 0 {
		w.made(trajectories)
	}
	p.closed = make(chan struct{}, 1)
	o.Runs, o.Log = p, zerolog.Nop()
	w.page = ui.New(o)
	w.http = httptest.NewServer(w.page)
	t.Cleanup(func() { w.page.Close(); w.http.Close() })
	return w
}

func (w *world) made(trajectories int) {
	w.Helper()
	if _, err := synth.Write(w.Context(), w.admin, synth.Options{Run: run, Trajectories: trajectories}); err != nil {
		w.Fatal(err)
	}
}

// ask sends a request as a script would.
func (w *world) ask(path string, headers ...string) (*http.Response, string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.http.URL+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp, string(body)
}

// get wants an answer and reads it.
func (w *world) get(path string, into any) string {
	w.Helper()
	resp, body := w.ask(path)
	if resp.StatusCode != http.StatusOK {
		w.Fatalf("%s: %s: %s", path, resp.Status, body)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(body), into); err != nil {
			w.Fatalf("%s: %v in %.200s", path, err, body)
		}
	}
	return body
}

func (w *world) api(path string) string { return "/api/runs/" + string(run) + path }

// closes waits until no more than n connections are open.
func (w *world) closes(n int32) {
	w.Helper()
	for w.place.opened.Load() > n {
		select {
		case <-w.place.closed:
		case <-time.After(time.Minute):
			w.Fatalf("%d connections stay open", w.place.opened.Load())
		}
	}
}

// until asks again until it is so.
func (w *world) until(what string, so func() bool) {
	w.Helper()
	for end := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(end) {
			w.Fatalf("no %s within a minute", what)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-w.Context().Done():
			w.Fatal(w.Context().Err())
		}
	}
}

// event is one of a stream of them.
type event struct {
	id         int64
	kind, data string
}

// listen reads events until the server ends or the test does.
func (w *world) listen(ctx context.Context) <-chan event {
	w.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.http.URL+w.api("/events"), nil)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		w.Fatalf("events: %s", resp.Status)
	}
	out := make(chan event, 1000)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		in := bufio.NewReaderSize(resp.Body, 1<<20)
		var e event
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch key {
			case "id":
				fmt.Sscan(value, &e.id) //nolint:errcheck // checked by who reads it
			case "event":
				e.kind = value
			case "data":
				e.data = value
			case "":
				if e.kind != "" {
					out <- e
				}
				e = event{}
			}
		}
	}()
	return out
}
