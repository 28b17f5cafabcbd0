package trace

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

var update = flag.Bool("update", false, "write the golden trace anew")

// TestWrite_StepsOfARun draws the story. What the bytes mean is checked in
// trainer-bridge/python/tests/test_perfetto.py, with Perfetto's own classes.
func TestWrite_StepsOfARun(t *testing.T) {
	w := newWorld(t).story()
	var buf bytes.Buffer
	r, err := Write(t.Context(), w.conn, run, Options{First: 1, Final: 2}, &buf)
	if err != nil {
		t.Fatal(err)
	}
	if r.Trajectories != 6 || r.Groups != 3 || r.Steps != 2 || r.Syncs != 1 || r.Samples != 3 || r.Spans != 20 || r.Unread+r.LeftOut != 0 || r.WaitSeconds != 1.93 || r.TrainSeconds != 1.86 || r.Skew != 0.0001 {
		t.Errorf("%+v", r)
	}
	if r.From.UnixNano() != t0 || r.To.UnixNano() != t0+5400*ms || r.Bytes != int64(buf.Len()) {
		t.Errorf("%+v", r)
	}
	path := filepath.Join("testdata", "story.pftrace")
	if *update {
		w.must(os.WriteFile(path, buf.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	w.must(err)
	if !bytes.Equal(buf.Bytes(), want) {
		t.Errorf("%d bytes differ from the %d of %s; if the Python tests read the new ones as they should, run with -update", buf.Len(), len(want), path)
	}
}

func TestWrite_OneStepIsAWindowOfItsOwn(t *testing.T) {
	w := newWorld(t).story()
	r, err := Write(t.Context(), w.conn, run, Options{First: 2, Final: 2}, io.Discard)
	w.must(err)
	// From the opening of t2 on: its three episodes and the commit of step 2.
	if r.Steps != 1 || r.Trajectories != 3 || r.WaitSeconds != 1.93 || r.From.UnixNano() != t0+2500*ms {
		t.Errorf("%+v", r)
	}
	if _, err := Write(t.Context(), w.conn, run, Options{First: 9, Final: 9}, io.Discard); err == nil || !strings.Contains(err.Error(), "no batch of steps 9 to 9") {
		t.Errorf("a step that is not there: %v", err)
	}
}

func TestWrite_TheLastSecondsOfARun(t *testing.T) {
	w := newWorld(t)
	if _, err := Write(t.Context(), w.conn, run, Options{}, io.Discard); err == nil || !strings.Contains(err.Error(), "nothing has happened") {
		t.Errorf("an empty run: %v", err)
	}
	now := time.Now().UnixNano()
	w.play("p1", "t0", 0, now-3600*sec, subjects.Succeeded)
	for i := range subjects.Slot(3) {
		w.play("p1", "t1", i, now-int64(i)*100*ms-sec, subjects.Succeeded)
	}
	r, err := Write(t.Context(), w.conn, run, Options{Last: 10 * time.Second}, io.Discard)
	w.must(err)
	if r.Trajectories != 3 || r.Steps != 0 {
		t.Errorf("%+v", r)
	}
	r, err = Write(t.Context(), w.conn, run, Options{Last: 10 * time.Second, MaxTrajectories: 2}, io.Discard)
	w.must(err)
	if r.Trajectories != 2 || r.LeftOut != 1 {
		t.Errorf("with a bound: %+v", r)
	}
}

func TestWrite_ReadingChangesNothing(t *testing.T) {
	w := newWorld(t).story()
	before := w.heads()
	_, err := Write(t.Context(), w.conn, run, Options{First: 1, Final: 2}, io.Discard)
	w.must(err)
	if after := w.heads(); after != before {
		t.Errorf("streams were %v, are %v", before, after)
	}
}

func (w *world) heads() (out [6][2]uint64) {
	for i, s := range subjects.Streams() {
		state, err := bus.StreamState(w.Context(), w.conn, run, s)
		w.must(err)
		out[i] = [2]uint64{state.Msgs, state.LastSeq}
	}
	return out
}

func TestSpread_LanesDoNotOverlapAndAreFew(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var blocks []block
		for range rng.IntN(60) {
			start := rng.Int64N(100)
			blocks = append(blocks, block{start: start, end: start + rng.Int64N(30)})
		}
		deepest := 0
		for at := range int64(130) {
			n := 0
			for _, b := range blocks {
				if b.start <= at && at < b.end {
					n++
				}
			}
			deepest = max(deepest, n)
		}
		lanes := spread(blocks)
		if len(lanes) > max(deepest, 1)+1 {
			t.Fatalf("%d lanes for %d at a time", len(lanes), deepest)
		}
		for _, lane := range lanes {
			for i := 1; i < len(lane); i++ {
				if lane[i].start < lane[i-1].end {
					t.Fatalf("overlap in a lane: %v", lane)
				}
			}
		}
	}
}

func TestNest_WhatOutlastsItsParentIsCut(t *testing.T) {
	out := nest([]block{{start: 5, end: 30, name: "b"}, {start: 0, end: 20, name: "a"}, {start: 20, end: 25, name: "c"}, {start: 5, end: 9, name: "d"}})
	if len(out) != 2 || out[0].name != "a" || out[1].name != "c" {
		t.Fatalf("%+v", out)
	}
	if b := out[0].inside; len(b) != 1 || b[0].end != 20 || len(b[0].inside) != 1 || b[0].inside[0].name != "d" {
		t.Errorf("%+v", b)
	}
}

func TestEpisode_WhatWasCutShortIsDrawnAsFarAsItCame(t *testing.T) {
	e := episode(&subjects.Trajectory{Group: "t1", Status: subjects.Failed, Reason: "engine gone", Started: 100, Finished: 900, Turns: []subjects.Turn{
		{Queued: 110, Generated: 200, Stepped: 300},
		{Queued: 250, Generated: 260}, // made up: before the turn before it was over
		{Queued: 310, Generated: 400},
		{Queued: 410},
		{Queued: 950, Generated: 960}, // after the end
		{},
	}}, 1000, nil)
	e.detail(&e)
	var got []string
	if len(e.inside) == 0 || e.inside[0].name != "reset" || e.inside[0].start != 1100 || e.inside[0].end != 1110 {
		t.Fatalf("%+v", e.inside)
	}
	for _, turn := range e.inside[1:] {
		text := fmt.Sprint(turn.start, "-", turn.end)
		for _, b := range turn.inside {
			text += fmt.Sprint(" ", b.name, " ", b.start, "-", b.end)
		}
		got = append(got, text)
	}
	want := []string{"1110-1300 generate 1110-1200 step 1200-1300", "1310-1400 generate 1310-1400", "1410-1410"}
	if e.start != 1100 || e.end != 1900 || !slices.Equal(got, want) {
		t.Errorf("%d-%d\ngot  %q\nwant %q", e.start, e.end, got, want)
	}
}

// BenchmarkWrite draws a run of 4000 episodes of two turns, read from a server
// in this process.
func BenchmarkWrite(b *testing.B) {
	w := newWorld(b)
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: run, Producer: "p1"})
	var wg sync.WaitGroup
	now := time.Now().UnixNano()
	for g := range 40 {
		wg.Go(func() {
			for i := range subjects.Slot(100) {
				if _, err := p.Publish(b.Context(), played("p1", subjects.TrainGroup(uint64(g)), i, now-10*sec, subjects.Succeeded)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w.must(p.Close(b.Context()))
	b.ReportAllocs()
	for b.Loop() {
		r, err := Write(b.Context(), w.conn, run, Options{Last: time.Hour}, io.Discard)
		if err != nil || r.Trajectories != 4000 {
			b.Fatalf("%+v, %v", r, err)
		}
		b.ReportMetric(float64(r.Bytes)/4000, "B/trajectory")
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/4000, "µs/trajectory")
}
