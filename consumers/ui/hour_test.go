package ui_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/consumers/ui"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// browser takes what a server writes, in this process: its time may be a bubble's.
type browser struct {
	header http.Header
	took   chan []byte   // what was written, if somebody reads it
	asleep chan struct{} // while it is not nil, nothing is taken until it is closed
	gone   chan struct{} // closed when it leaves
}

func (b *browser) Header() http.Header              { return b.header }
func (b *browser) WriteHeader(int)                  {}
func (b *browser) Flush()                           {}
func (b *browser) SetWriteDeadline(time.Time) error { return nil }

func (b *browser) Write(p []byte) (int, error) {
	if b.asleep != nil {
		<-b.asleep
	}
	select {
	case b.took <- bytes.Clone(p):
		return len(p), nil
	case <-b.gone:
		return 0, io.ErrClosedPipe
	}
}

// live is a run that is played for an hour in no time, and one browser.
type live struct {
	*testing.T
	conn *bus.Conn
	page *ui.Server
	step subjects.Step
	seq  int64
}

func (l *live) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// second is what happens in a second: every role's report, and every fifth a step.
func (l *live) second() {
	l.seq++
	for i, role := range []string{"grouper", "bridge", "engine", "produce"} {
		g := &subjects.Gauges{Role: role, Instance: fmt.Sprintf("%s%d", role, i), At: time.Now().UnixNano(), Values: map[string]float64{"produced": float64(l.seq * 8), "open": 3, "live": 4}}
		data, err := subjects.EncodeMessage(g)
		l.must(err)
		l.must(l.conn.NC().Publish(run.TelemetrySubject(role, g.Instance), data))
	}
	if l.seq%5 == 0 {
		l.step++
		data, err := subjects.EncodeMessage(&subjects.CommitEvent{Step: l.step, Tokens: 100, TrainSeconds: 3, WaitSeconds: 1, Metrics: map[string]float64{"loss": 1}, At: time.Now().UnixNano()})
		l.must(err)
		l.must(l.conn.NC().Publish(run.WeightsSubject(subjects.EventCommit), data))
	}
	time.Sleep(time.Second)
}

func (l *live) open(b *browser) {
	r := httptest.NewRequestWithContext(l.Context(), http.MethodGet, "/api/runs/"+string(run)+"/events", nil)
	go l.page.ServeHTTP(b, r)
}

// heard counts what a browser got, and fails where something is missing.
type heard struct {
	t              *testing.T
	id, point      int64
	state, steps   int
	missed, points int
	lastStep       int64
}

func (h *heard) take(p []byte) {
	for text := range strings.SplitSeq(string(p), "\n\n") {
		lines := strings.SplitN(text, "\n", 3)
		if len(lines) != 3 {
			continue // a comment
		}
		var id int64
		if _, err := fmt.Sscanf(lines[0], "id: %d", &id); err != nil || id != h.id+1 {
			h.t.Errorf("event %d after %d: %v", id, h.id, err)
		}
		h.id = id
		data := []byte(strings.TrimPrefix(lines[2], "data: "))
		switch strings.TrimPrefix(lines[1], "event: ") {
		case "state":
			h.state++
		case "steps":
			var c struct{ Columns struct{ Step []int64 } }
			if json.Unmarshal(data, &c) == nil && len(c.Columns.Step) > 0 {
				h.steps++
				if c.Columns.Step[0] > h.lastStep+1 {
					h.t.Errorf("steps go from %d to %d", h.lastStep, c.Columns.Step[0])
				}
				h.lastStep = c.Columns.Step[len(c.Columns.Step)-1]
			}
		case "point":
			var v struct{ N int64 }
			if err := json.Unmarshal(data, &v); err != nil {
				h.t.Error(err)
			}
			if h.points++; h.point > 0 && v.N != h.point+1 {
				h.missed++
			}
			h.point = v.N
		}
	}
}

func newLive(t *testing.T) *live {
	srv := natstest.InProcess(t)
	l := &live{T: t, conn: natstest.Connect(t, srv)}
	l.must(bus.EnsureStreams(t.Context(), l.conn, run, subjects.StreamOptions{RolloutBytes: 1 << 26, TelemetryBytes: 1 << 20}))
	l.page = ui.New(ui.Options{Runs: &place{options: srv.Options()}, Files: page, Log: zerolog.Nop()})
	return l
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools still hold
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

func TestEvents_AnHourGrowsNothingAndMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t)
		defer l.page.Close()
		b, h := &browser{header: http.Header{}, took: make(chan []byte, 64), gone: make(chan struct{})}, &heard{t: t}
		defer close(b.gone)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for {
				select {
				case p := <-b.took:
					h.take(p)
				case <-ctx.Done():
					return
				}
			}
		}()
		l.second()
		l.open(b)
		var early int64
		for n := range 3600 {
			if l.second(); n == 2400 { // points of ten minutes are there, and the server's buffer of a block, 4 MB from its first MB on
				early = heap()
			}
		}
		synctest.Wait()
		if grown := heap() - early; grown > 1<<20 {
			t.Errorf("%d bytes grown from minute 40 to 60", grown)
		}
		if h.state < 3500 || h.state > 3610 || h.points < 3500 || h.missed > 0 || h.lastStep != int64(l.step) || h.steps < 700 {
			t.Errorf("heard %+v of 3600 seconds and %d steps", *h, l.step)
		}
	})
}

func TestEvents_ASlowBrowserGetsWhatIsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t)
		defer l.page.Close()
		b, h := &browser{header: http.Header{}, took: make(chan []byte), asleep: make(chan struct{}), gone: make(chan struct{})}, &heard{t: t}
		defer close(b.gone)
		l.second()
		l.open(b)
		before := heap()
		for range 900 { // a quarter of an hour in which it takes nothing
			l.second()
		}
		if grown := heap() - before; grown > 12<<20 {
			t.Errorf("%d bytes are kept for it", grown)
		}
		close(b.asleep)
		deadline := time.After(3 * time.Second)
		for awake := true; awake; {
			select {
			case p := <-b.took:
				h.take(p)
			case <-deadline:
				awake = false
			}
		}
		if h.state < 2 || h.state > 6 || h.missed > 0 || h.points < 800 || h.lastStep != int64(l.step) {
			t.Errorf("heard %+v of 900 seconds and %d steps", *h, l.step)
		}
	})
}
