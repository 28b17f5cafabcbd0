package perfetto

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden trace anew")

// sample has one of everything; trainer-bridge/python/tests/test_perfetto.py
// reads it with Perfetto's own classes.
func sample(w *Writer) {
	const t0 = int64(1_750_000_000_000_000_000)
	w.Clock(t0)
	w.Track(Track{ID: 1, Name: "producer p1", Ranked: true, Process: &Process{PID: 1, Name: "producer p1"}})
	w.Track(Track{ID: 2, Parent: 1, Thread: &Thread{PID: 1, TID: 7, Name: "publish"}})
	w.Track(Track{ID: 3, Parent: 1, Name: "episodes", Rank: 1})
	w.Track(Track{ID: 4, Parent: 1, Name: "episodes", Rank: -2, Description: "the second lane"})
	w.Track(Track{ID: 5, Parent: 1, Name: "live_episodes", Counter: &Counter{Unit: "episodes"}})
	w.Event(Event{Kind: Begin, Track: 3, At: t0, Name: "episode", Category: "rollout", Flows: []uint64{math.MaxUint64, 7},
		Args: []Arg{Text("id", "t1/0/0 ✓"), Int("seed", int64(-42)), Float("reward", 0.5), Bool("greedy", true)}})
	w.Slice(Event{Track: 3, At: t0 + 100, Name: "generate"}, t0+300)
	w.Event(Event{Kind: End, Track: 3, At: t0 + 400})
	w.Slice(Event{Track: 4, At: t0 + 50, Name: "episode", Category: "rollout", Args: []Arg{Text("id", "t1/1/0")}}, t0)
	w.Event(Event{Kind: Instant, Track: 2, At: t0 + 500, Name: "publish", Ends: []uint64{math.MaxUint64}})
	w.Event(Event{Kind: Count, Track: 5, At: t0, Value: 2.5})
	w.Event(Event{Kind: Count, Track: 5, At: t0 + 1, Value: math.NaN()})
	w.Event(Event{Kind: Count, Track: 5, At: t0 + 400, Value: -1})
}

func TestWriter_SampleKeepsItsBytes(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf, 1)
	sample(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "sample.pftrace")
	if *update {
		if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf.Bytes(), want) {
		t.Errorf("bytes changed; if the Python tests read the new ones as they should, run with -update\n got %x\nwant %x", buf.Bytes(), want)
	}
	if packets, n := w.Written(); packets != 15 || n != int64(buf.Len()) {
		t.Errorf("counted %d packets, %d bytes; wrote %d bytes", packets, n, buf.Len())
	}
}

func TestWriter_MoreNamesThanItKeepsAreToldAgain(t *testing.T) {
	w := NewWriter(io.Discard, 1)
	for i := range 3 * maxNames {
		w.Event(Event{Kind: Instant, Track: 1, At: int64(i), Name: fmt.Sprint("n", i)})
		if n := len(w.names.ids); n > maxNames+1 {
			t.Fatalf("keeps %d names", n)
		}
	}
	if id := w.names.id(fmt.Sprint("n", 3*maxNames-1)); id > maxNames {
		t.Errorf("number %d after it forgot", id)
	}
}

func TestWriter_KeepsTheFirstError(t *testing.T) {
	w := NewWriter(full{}, 1)
	for range 100_000 {
		w.Event(Event{Kind: Instant, Track: 1, Name: "x"})
	}
	if err := w.Flush(); !errors.Is(err, errFull) {
		t.Errorf("got %v, want the disk's error", err)
	}
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestEvent_WritesWithoutAllocating(t *testing.T) {
	w := NewWriter(io.Discard, 1)
	e := Event{Kind: Begin, Track: 3, At: 1, Name: "episode", Category: "rollout", Flows: []uint64{7}, Args: []Arg{Text("id", "t1/0/0"), Float("reward", 1)}}
	w.Event(e)
	if n := testing.AllocsPerRun(1000, func() { w.Event(e) }); n > 0 {
		t.Errorf("%v allocations an event", n)
	}
}

func BenchmarkEvent(b *testing.B) {
	w := NewWriter(io.Discard, 1)
	e := Event{Kind: Begin, Track: 3, At: 1_750_000_000_000_000_000, Name: "episode", Category: "rollout", Flows: []uint64{7}, Args: []Arg{Text("id", "t1/0/0"), Float("reward", 1)}}
	b.ReportAllocs()
	for b.Loop() {
		w.Event(e)
	}
}
