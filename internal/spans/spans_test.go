package spans

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const run = subjects.Run("lake-1")

func TestRecorder_WhatIsRecordedArrivesAsOneMessage(t *testing.T) {
	conn := natstest.Connect(t, natstest.InProcess(t))
	if err := bus.EnsureStreams(t.Context(), conn, run, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	r := New("produce", "p1", 100)
	turn, tokens := r.Name("turn"), r.Name("tokens")
	start := r.Now()
	for i := range 10 {
		r.Episode(7, int32(i)).Record(turn, start, start+int64(i), Arg{tokens, float64(i)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Run sends what there is before it ends
	if err := r.Run(ctx, conn, run); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := errors.New("got it")
	err := bus.Follow(ctx, conn, run.StreamName(subjects.Telemetry), run.SpanSubject("produce", "p1"), 1, func(m *bus.Msg) error {
		var b subjects.SpanBatch
		if err := subjects.DecodeMessage(m.Data, &b); err != nil {
			return err
		}
		spans, err := b.Spans()
		if err != nil {
			return err
		}
		last := spans[len(spans)-1]
		if len(spans) != 10 || last.Name != "turn" || last.Lane != 9 || last.Start != start || last.Duration != 9 || last.Flow != 7 ||
			len(last.Args) != 1 || last.Args[0] != (subjects.TimeSpanArg{Key: "tokens", Value: 9}) {
			t.Errorf("%d spans, the last %+v", len(spans), last)
		}
		return got
	})
	if !errors.Is(err, got) {
		t.Fatal(err)
	}
}

func TestRecorder_FollowsAClockThatWasAway(t *testing.T) {
	r := New("produce", "p1", 1)
	r.follow(r.Now() + int64(mostDrift/2))
	if d := time.Now().UnixNano() - r.Now(); d < -int64(mostDrift/4) || d > int64(mostDrift/4) {
		t.Errorf("moved by %v for a little", time.Duration(-d))
	}
	away := time.Now().Add(8 * time.Hour).UnixNano()
	r.follow(away)
	if d := r.Now() - away; d < 0 || d > int64(time.Minute) {
		t.Errorf("%v behind a machine that slept", time.Duration(-d))
	}
}

func TestRecorder_WhatFindsNoRoomIsCounted(t *testing.T) {
	r := New("produce", "p1", 8)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				r.Record(r.Name("turn"), 0, 1, 2)
			}
		})
	}
	wg.Wait()
	if b := r.take(1); len(b.Name) != 8 || b.Dropped != 12 {
		t.Errorf("%d spans, %d dropped; want 8 and 12", len(b.Name), b.Dropped)
	}
	r.Record(r.Name("turn"), 0, 1, 2)
	if b := r.take(1); len(b.Name) != 1 || b.Dropped != 12 {
		t.Errorf("then %d spans, %d dropped; want 1 and 12", len(b.Name), b.Dropped)
	}
	if b := r.take(1); b != nil {
		t.Errorf("nothing new is a batch of %d", len(b.Name))
	}
}

func TestMeasure_TheFastestAnswerCounts(t *testing.T) {
	clock, round := int64(1000), int64(0)
	o, err := Measure(t.Context(), func() int64 { return clock }, func(context.Context) (time.Time, error) {
		round++
		there := 40 + 100*((round+3)%8) // the fifth request is the fastest
		clock += there
		at := time.Unix(0, clock-5000)
		clock += 20 // answers come back faster than requests get there
		return at, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.Uncertainty != 30 || o.Ahead < -5000-30 || o.Ahead > -5000+30 {
		t.Errorf("%+v: want -5000 within 30", o)
	}
}

func TestMeasure_OfARealServerIsNear(t *testing.T) {
	conn := natstest.Connect(t, natstest.Loopback(t))
	if err := bus.EnsureStreams(t.Context(), conn, run, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	r := New("produce", "p1", 0)
	o, err := Measure(t.Context(), r.Now, func(ctx context.Context) (time.Time, error) { return bus.ServerTime(ctx, conn) })
	if err != nil {
		t.Fatal(err)
	}
	// It is the same clock: what is measured must be within what is claimed.
	if o.Ahead.Abs() > o.Uncertainty+time.Millisecond || o.Uncertainty <= 0 {
		t.Errorf("%+v: want none, within the uncertainty", o)
	}
}

func TestRecord_AllocatesNothing(t *testing.T) {
	r := New("produce", "p1", 10_000)
	name := r.Name("turn")
	if n := testing.AllocsPerRun(1000, func() { r.Record(name, 1, 2, 3, Arg{name, 5}); r.Episode(4, 1).Record(name, 2, 3, Arg{name, 5}) }); n > 0 {
		t.Errorf("%v allocations a span", n)
	}
	var none *Recorder
	none.Record(none.Name("turn"), 0, none.Now(), none.Now())
	none.Episode(7, 0).Record(none.Name("turn"), 0, 1)
}

func BenchmarkRecord(b *testing.B) {
	r := New("produce", "p1", 1<<20)
	name, key := r.Name("turn"), r.Name("tokens")
	b.ReportAllocs()
	for b.Loop() {
		start := r.Now()
		r.Record(name, 1, start, r.Now(), Arg{key, 1})
		if len(r.rows) == cap(r.rows) {
			r.rows = r.rows[:0]
		}
	}
}

func BenchmarkTake(b *testing.B) {
	r := New("produce", "p1", 0)
	name := r.Name("turn")
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		for i := range 1000 {
			Episode{r: r, flow: uint64(i) << 40, lane: int32(i % 64)}.Record(name, int64(i)*1_000_003, int64(i)*1_000_003+700_000)
		}
		data, err := subjects.EncodeMessage(r.take(0))
		if err != nil {
			b.Fatal(err)
		}
		size = len(data)
	}
	b.ReportMetric(float64(size)/1000, "B/span")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/span")
}

// TestRun_OnAMuteConnectionNothingIsRecorded until its context ends.
func TestRun_OnAMuteConnectionNothingIsRecorded(t *testing.T) {
	o := natstest.InProcess(t).Options()
	o.Mute = true
	conn, err := bus.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r := New("produce", "p1", 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx, conn, run); err != nil {
		t.Fatal(err)
	}
	if r.Record(r.Name("turn"), 0, 1, 2); r.take(3) != nil {
		t.Error("records though nobody will ask for it")
	}
	var none *Recorder
	if err := none.Run(ctx, conn, run); err != nil {
		t.Error(err)
	}
}

// TestTake_IsWhatSetSpansMakes of the same spans, names in the same places.
func TestTake_IsWhatSetSpansMakes(t *testing.T) {
	for _, flow := range []uint64{0, 9} {
		r := New("produce", "p1", 0)
		r.Name("never used")
		names := []Name{r.Name("turn"), r.Name("tokens"), r.Name("step"), r.Name("rows")}
		for i := range 40 {
			Episode{r: r, flow: flow * uint64(i%2), lane: int32(i % 3)}.Record(names[i*i%4], int64(100+7*i), int64(150+9*i), []Arg{{names[(i+1)%4], float64(i)}, {names[3], 1}}[:i%3]...)
		}
		got := r.take(50)
		spans, err := got.Spans()
		if err != nil {
			t.Fatal(err)
		}
		want := *got
		want.SetSpans(spans)
		a, err := subjects.EncodeMessage(got)
		if err != nil {
			t.Fatal(err)
		}
		b, err := subjects.EncodeMessage(&want)
		if err != nil || !bytes.Equal(a, b) || len(spans) != 40 {
			t.Errorf("%v: %+v, want %+v", err, got, want)
		}
	}
}
