package trainerbridge

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// said is a frame of spans as a sound trainer sends it.
func said() feed.Spans {
	return feed.Spans{At: time.Now().UnixNano(), Names: []string{"wait for batch", "train step", "step"}, Name: []int32{0, 1}, Lane: []int32{0, 0},
		Start: []int64{-90, 40}, Duration: []int64{40, 50}, Args: []subjects.RowArg{{Row: 1, Key: 2, Value: 7}}, Dropped: 4}
}

// trainerSpans are what TELEMETRY has of a trainer.
func (w *world) trainerSpans(rank string) (all []subjects.SpanBatch) {
	w.Helper()
	w.must(w.conn.NC().Flush())
	for _, m := range w.stored(subjects.Telemetry) {
		if m.Subject == testRun.SpanSubject("trainer", rank) {
			var b subjects.SpanBatch
			w.must(subjects.DecodeMessage(m.Data, &b))
			all = append(all, b)
		}
	}
	return all
}

func TestBridge_PublishesWhatATrainerSaysOfItself(t *testing.T) {
	w := newWorld(t)
	s := w.serve(nil)
	c := s.dial(0)
	if c.Welcome.Spans != maxSpans || c.Welcome.Clock == nil || c.Welcome.Clock.Sent < c.Welcome.Clock.Received {
		t.Fatalf("welcome %+v", c.Welcome)
	}
	m, before := said(), time.Now().UnixNano()
	m.Offset, m.Uncertainty = -1000, 30
	ok, err := c.Spans(m)
	w.must(err)
	if now := time.Now().UnixNano(); ok.Clock == nil || ok.Clock.Received < before || ok.Clock.Sent < ok.Clock.Received || ok.Clock.Sent > now {
		t.Errorf("clock %+v, want one between %d and %d", ok.Clock, before, now)
	}
	m.ID = 50 // the last words before BYE, which nobody waits for
	frame, err := feed.Append(nil, feed.TypeSpans, m, 0)
	w.must(err)
	_, err = c.Conn().Write(frame)
	w.must(err)
	w.must(c.Close("done"))
	w.must(s.end())
	got := w.trainerSpans("rank0")
	if len(got) != 2 {
		t.Fatalf("%d batches of spans, want 2", len(got))
	}
	b := got[0]
	spans, err := b.Spans()
	w.must(err)
	if b.Role != "trainer" || b.Instance != "rank0" || b.Dropped != 4 || b.Uncertainty < 30 || len(spans) != 2 {
		t.Errorf("batch %+v", b)
	}
	if x := spans[1]; x.Name != "train step" || x.Start != m.At-50 || x.Duration != 50 || len(x.Args) != 1 || x.Args[0] != (subjects.TimeSpanArg{Key: "step", Value: 7}) {
		t.Errorf("span %+v", x)
	}
}

// TestBridge_RefusesGarbageAndGoesOn: telemetry never costs a trainer its feed.
func TestBridge_RefusesGarbageAndGoesOn(t *testing.T) {
	w := newWorld(t)
	s := w.serve(nil)
	g := w.group(1, 4)
	w.entry(subjects.Entry{Batches: []subjects.Batch{batchOf(1, g)}})
	c := s.dial(0)
	for name, spoil := range map[string]func(*feed.Spans){
		"none":           func(m *feed.Spans) { *m = feed.Spans{At: m.At} },
		"columns":        func(m *feed.Spans) { m.Lane = m.Lane[:1] },
		"name":           func(m *feed.Spans) { m.Name[0] = 99 },
		"negative":       func(m *feed.Spans) { m.Duration[0] = -1 },
		"long name":      func(m *feed.Spans) { m.Names[0] = strings.Repeat("x", 999) },
		"no name":        func(m *feed.Spans) { m.Names[0] = "" },
		"argument":       func(m *feed.Spans) { m.Args[0].Row = 9 },
		"arguments":      func(m *feed.Spans) { m.Args = make([]subjects.RowArg, 99) },
		"lane":           func(m *feed.Spans) { m.Lane[0] = 1 << 20 },
		"yesterday":      func(m *feed.Spans) { m.At -= int64(24 * time.Hour) },
		"tomorrow":       func(m *feed.Spans) { m.Start[0] = int64(24 * time.Hour) },
		"wrong offset":   func(m *feed.Spans) { m.Offset = 1 << 62 },
		"no uncertainty": func(m *feed.Spans) { m.Uncertainty = -1 },
		"overflow":       func(m *feed.Spans) { m.Start = []int64{1 << 62, 1 << 62} },
		"too many": func(m *feed.Spans) {
			n := maxSpans + 1
			m.Name, m.Lane, m.Start, m.Duration = make([]int32, n), make([]int32, n), make([]int64, n), make([]int64, n)
		},
	} {
		m := said()
		spoil(&m)
		if _, err := c.Spans(m); !errors.Is(err, feed.ErrRefused) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	var notice string
	c.OnNotice = func(n feed.Notice) { notice += n.Kind + " " + n.Text }
	for _, body := range []any{map[string]any{"at": "now"}, map[string]any{"id": "x"}, map[string]any{}} {
		frame, err := feed.Append(nil, feed.TypeSpans, body, 0)
		w.must(err)
		_, err = c.Conn().Write(frame)
		w.must(err)
	}
	train(t, c, 1)
	if _, err := c.Spans(said()); err != nil {
		t.Errorf("after all that: %v", err)
	}
	if strings.Count(notice, "spans refused") != 3 {
		t.Errorf("notices %q", notice)
	}
	w.must(c.Close("done"))
	w.must(s.end())
	if got := w.trainerSpans("rank0"); len(got) != 1 || got[0].Dropped < 4+15 {
		t.Errorf("published %+v", got)
	}
}

func TestSession_ListensNoFasterThanItRetells(t *testing.T) {
	s := &session{bridge: &bridge{stats: &stats{}}, told: make(chan told, maxTold)}
	for range maxTold + 5 {
		s.listen(feed.Frame{Type: feed.TypeSpans})
	}
	if n := s.stats.trainerSpansDropped.Load(); n != 5 {
		t.Errorf("%d dropped, want 5", n)
	}
}
