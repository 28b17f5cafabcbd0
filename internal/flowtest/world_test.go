package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/subjects"
)

const (
	run      = subjects.Run("flow")
	patience = 50 * time.Second // for one thing to happen
)

// world is a run on a real server.
type world struct {
	testing.TB
	server *bus.Server // in this process
	remote bus.Options // from another
	conn   *bus.Conn
}

func newWorld(t testing.TB, o bus.ServerOptions, s subjects.StreamOptions) *world {
	t.Helper()
	if o.Sync == "" {
		o.Sync = "10m"
	}
	w := &world{TB: t, server: natstest.Start(t, o)}
	w.conn, w.remote = natstest.Connect(t, w.server), w.server.RemoteOptions()
	w.create(s)
	return w
}

// create makes the run.
func (w *world) create(s subjects.StreamOptions) {
	w.Helper()
	w.must(bus.EnsureStreams(w.ctx(), w.conn, run, s))
	w.must(bus.PutRun(w.ctx(), w.conn, &subjects.RunRecord{V: 1, Run: run, Schema: subjects.SchemaVersion, Recipe: json.RawMessage("{}")}))
}

// ctx bounds one wait: a hang is a failure.
func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// start runs a part until the returned function is called, or the test ends.
func (w *world) start(name string, fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			w.Errorf("%s: %v", name, err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	w.Cleanup(stop)
	return stop
}

// engine is a fake one, in the run's registry, that samples as many tokens as it may.
func (w *world) engine(limit int) {
	w.Helper()
	e := sglangtest.New("0")
	e.Tokens = make([]int32, limit)
	for i := range e.Tokens {
		e.Tokens[i] = int32(20 + i%100) // letters and such
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	server := &http.Server{Handler: e.Handler, ReadHeaderTimeout: patience}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) })
	w.Cleanup(func() { _ = server.Close(); wg.Wait() })
	w.must(bus.PutEngine(w.ctx(), w.conn, run, &subjects.EngineRecord{V: 1, Engine: "e", URL: "http://" + l.Addr().String(), Version: 0, Ready: true, At: time.Now().UnixNano()}))
}

// address is a socket for a feed: their paths must be short.
func (w *world) address() string { return "unix:" + filepath.Join(w.TempDir(), "f") }

var errEnough = errors.New("enough")

// ledger follows the decisions until ok.
func (w *world) ledger(what string, ok func(*subjects.Entry) bool) {
	w.Helper()
	err := bus.Follow(w.ctx(), w.conn, run.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		if ok(&e) {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		w.Fatalf("waiting for %s: %v", what, err)
	}
}

// gauge follows a role's reports until ok.
func (w *world) gauge(what, role string, ok func(map[string]float64) bool) {
	w.Helper()
	err := bus.Follow(w.ctx(), w.conn, run.StreamName(subjects.Telemetry), run.TelemetrySubject(role, "*"), 1, func(m *bus.Msg) error {
		var g subjects.Gauges
		if subjects.DecodeMessage(m.Data, &g) == nil && ok(g.Values) {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		w.Fatalf("waiting for %s: %v", what, err)
	}
}

// until looks again and again, for what no event tells.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	ctx := w.ctx()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.Fatalf("no %s within %v", what, patience)
		}
	}
}

func (w *world) messages(s subjects.Stream) uint64 {
	w.Helper()
	state, err := bus.StreamState(w.ctx(), w.conn, run, s)
	w.must(err)
	return state.Msgs
}

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex
	text []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func (l *lines) log() zerolog.Logger { return zerolog.New(l) }
