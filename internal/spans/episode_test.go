package spans

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/headrace/headrace/subjects"
)

// flowOf is the flow of the n-th trajectory of a run.
func flowOf(n int) uint64 {
	return subjects.FlowID(subjects.TrainGroup(uint64(n/8)), subjects.Slot(n%8), 0)
}

// fleet is a process that plays many episodes, each of which has four spans.
type fleet struct {
	*testing.T
	*Recorder
	names [4]Name
	begun int
}

func newFleet(t *testing.T, room int) *fleet {
	f := &fleet{T: t, Recorder: New("produce", "p1", room)}
	for i := range f.names {
		f.names[i] = f.Name(fmt.Sprint("part ", i))
	}
	return f
}

// seen is what a second's report has.
type seen struct {
	episodes          map[uint64]int // spans of it
	spans, always     int            // of episodes, of others
	recorded, leftOut int
	from, to          int64 // that the sample was drawn in
	start, end        int64
	dropped           uint64
}

// plays so many episodes in a second, and between them what is always recorded.
func (f *fleet) plays(episodes, always int) seen {
	f.Helper()
	start := f.taken
	for i := range max(episodes, always) {
		if i < episodes {
			f.whole(f.Episode(flowOf(f.begun), 0), start)
			f.begun++
		}
		if i < always {
			f.Recorder.Record(f.Recorder.Name("train step"), 0, start, start+1)
		}
	}
	return f.report()
}

func (f *fleet) whole(e Episode, at int64) {
	for _, n := range f.names {
		e.Record(n, at, at+1)
	}
}

// report is what was recorded in the second.
func (f *fleet) report() seen {
	f.Helper()
	s := seen{episodes: map[uint64]int{}, start: f.taken, end: f.taken + 1e9}
	b := f.take(s.end)
	if b == nil {
		return s
	}
	s.dropped = b.Dropped
	all, err := b.Spans()
	if err != nil {
		f.Fatal(err)
	}
	for _, x := range all {
		switch {
		case x.Flow != 0:
			s.spans++
			s.episodes[x.Flow]++
		case x.Name == sampleSpan:
			s.recorded, s.leftOut = int(x.Args[0].Value), int(x.Args[1].Value)
			s.from, s.to = x.Start, x.Start+x.Duration
		default:
			s.always++
		}
	}
	return s
}

func TestDraw_SamplesNestAndAreAsLargeAsTheySay(t *testing.T) {
	const n = 1 << 16
	var levels [8]map[int]bool
	for level := range levels {
		d := &draw{}
		d.init(1)
		d.level.Store(uint32(level)) //nolint:gosec // small
		levels[level] = map[int]bool{}
		for i := range n {
			if _, drawn := d.ask(flowOf(i)); drawn {
				levels[level][i] = true
			}
		}
		if want := float64(n) / float64(int(1)<<level); math.Abs(float64(len(levels[level]))/want-1) > .2 {
			t.Errorf("level %d: %d of %d episodes, want about %.0f", level, len(levels[level]), n, want)
		}
		drawn, leftOut := d.counts()
		if int(drawn) != len(levels[level]) || drawn+leftOut != n {
			t.Errorf("level %d: %d and %d counted, %d drawn", level, drawn, leftOut, len(levels[level]))
		}
		for i := range levels[level] {
			if level > 0 && !levels[level-1][i] {
				t.Fatalf("episode %d is drawn at level %d and not at %d", i, level, level-1)
			}
		}
	}
}

func TestEpisode_ManyAreSampledEachWholeOrNotAtAll(t *testing.T) {
	f := newFleet(t, 4096)
	budget := 4096 / budgetOf
	for second := range 8 {
		s := f.plays(10_000, 300)
		for flow, n := range s.episodes {
			if n != len(f.names) {
				t.Fatalf("second %d: %d of %d spans of %x", second, n, len(f.names), flow)
			}
		}
		if s.always != 300 || s.dropped != 0 {
			t.Errorf("second %d: %d of 300 others, %d dropped", second, s.always, s.dropped)
		}
		if most := 2 * budget; s.spans > most || second > 0 && (s.spans > budget*5/4 || s.spans < budget/4) {
			t.Errorf("second %d: %d spans, the budget is %d", second, s.spans, budget)
		}
		if s.recorded != len(s.episodes) || s.recorded+s.leftOut != 10_000 || s.from != s.start || s.to != s.end {
			t.Errorf("second %d: says %d and %d from %d to %d; %d of 10000 from %d to %d", second, s.recorded, s.leftOut, s.from, s.to, len(s.episodes), s.start, s.end)
		}
	}
}

func TestEpisode_AllAreRecordedAgainWhenTheyAreFew(t *testing.T) {
	f := newFleet(t, 4096)
	for range 3 {
		f.plays(10_000, 0)
	}
	seconds := 0
	for s := f.plays(100, 0); s.leftOut > 0; s = f.plays(100, 0) {
		if seconds++; seconds > 6 {
			t.Fatalf("after %d seconds %d of 100 are left out", seconds, s.leftOut)
		}
	}
	for range 3 {
		if s := f.plays(100, 0); s.leftOut != 0 || len(s.episodes) != 100 || s.spans != 400 {
			t.Errorf("%d episodes with %d spans, %d left out", len(s.episodes), s.spans, s.leftOut)
		}
	}
}

// TestEpisode_OneThatHasBegunStaysWhole when many others begin: at every second it
// records what it does.
func TestEpisode_OneThatHasBegunStaysWhole(t *testing.T) {
	f := newFleet(t, 4096)
	flow := flowOf(1 << 20)
	e := f.Episode(flow, 0)
	for range 4 {
		f.whole(e, f.taken)
		if s := f.plays(10_000, 0); s.episodes[flow] != len(f.names) {
			t.Errorf("%d spans of it", s.episodes[flow])
		}
	}
}

// TestEpisode_LongOnesAreCountedAsWhatTheyStandFor wants that the level does not
// rise and rise while episodes go on that began before there were too many.
func TestEpisode_LongOnesAreCountedAsWhatTheyStandFor(t *testing.T) {
	f := newFleet(t, 4096)
	var long []Episode
	for i := range 800 {
		long = append(long, f.Episode(flowOf(i), 0))
	}
	for second := range 10 {
		for i := range long {
			if f.whole(long[i], f.taken); i%10 == second { // it ends, another one begins
				long[i] = f.Episode(flowOf(1000*(second+2)+i), 0)
			}
		}
		f.report()
		if level := f.draw.level.Load(); level != 1 { // 3,200 spans a second, and room for 2,048
			t.Fatalf("second %d: level %d", second, level)
		}
	}
}

func TestEpisode_LeavesRoomForWhatIsAlwaysRecorded(t *testing.T) {
	f := newFleet(t, 800)
	e := f.Episode(flowOf(1), 0)
	for range 1000 {
		f.whole(e, f.taken)
	}
	if s := f.plays(0, 100); s.spans != 700 || s.always != 100 || s.dropped != 3300 {
		t.Errorf("%d spans of the episode, %d others, %d dropped", s.spans, s.always, s.dropped)
	}
}

func TestEpisode_ManyAtOnce(t *testing.T) {
	f := newFleet(t, 4096)
	var wg sync.WaitGroup
	for lane := range 4 {
		wg.Go(func() {
			for i := range 5000 {
				f.whole(f.Episode(flowOf(4*i+lane), int32(lane)), 1) //nolint:gosec // small
			}
		})
	}
	recorded, leftOut := 0, 0
	for range 5 {
		s := f.report()
		recorded, leftOut = recorded+s.recorded, leftOut+s.leftOut
	}
	wg.Wait()
	s := f.report()
	if recorded, leftOut = recorded+s.recorded, leftOut+s.leftOut; recorded+leftOut > 20_000 {
		t.Errorf("%d and %d of 20000", recorded, leftOut)
	}
}

func BenchmarkEpisode_LeftOut(b *testing.B) {
	r := New("produce", "p1", 0)
	r.draw.level.Store(highest)
	name := r.Name("turn")
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		e := r.Episode(uint64(n), 0) //nolint:gosec // it counts
		for range 4 {
			e.Record(name, e.Now(), e.Now())
		}
	}
}
