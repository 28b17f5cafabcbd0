package spans

import (
	"math"
	"sync/atomic"
	"time"
)

// Episode is where the spans of one episode are recorded, or where they are not:
// a process that plays many a second draws some of them by lot, and those whole.
// The zero Episode records nothing, at no cost.
type Episode struct {
	r     *Recorder // nil: not drawn
	flow  uint64
	lane  int32
	level uint32 // of the draw when it began
}

// Episode begins one whose spans belong to a flow, subjects.FlowID, and are on a
// lane. It is decided now whether all of them are recorded or none.
func (r *Recorder) Episode(flow uint64, lane int32) Episode {
	if r == nil || r.silent.Load() {
		return Episode{}
	}
	level, drawn := r.draw.ask(flow)
	if !drawn {
		return Episode{}
	}
	return Episode{r, flow, lane, level}
}

// Now is [Recorder.Now], or 0 where nobody will want to know.
func (e Episode) Now() int64 {
	if e.r == nil {
		return 0
	}
	return e.r.Now()
}

// Record notes a span of the episode, on its lane and in its flow.
func (e Episode) Record(n Name, start, end int64, args ...Arg) {
	if e.r != nil {
		e.record(n, e.lane, start, end, e.flow, args)
	}
}

// Beside notes what was done for the episode outside of it: on a lane of its own
// and in no flow.
func (e Episode) Beside(n Name, lane int32, start, end int64, args ...Arg) {
	if e.r != nil {
		e.record(n, lane, start, end, 0, args)
	}
}

// reserved is the part of the buffer that episodes leave to what is always recorded.
const reserved = 8

func (e Episode) record(n Name, lane int32, start, end int64, flow uint64, args []Arg) {
	r := e.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.add(r.room-r.room/reserved, n, lane, start, end, flow, args) {
		r.draw.note(e.level)
	}
}

// sampleSpan is a span of the time in which episodes were left out, with how many
// began in it that are recorded and that are not.
const sampleSpan = "sample"

// draw says which episodes are recorded, so that their spans keep to a budget: at
// level n one in 2^n, those whose flow is low enough. So every process that knows
// a flow decides the same, or less than another, never something else.
type draw struct {
	level          atomic.Uint32
	drawn, leftOut atomic.Int64 // episodes since the last report

	// With the recorder's lock:
	budget int     // spans of episodes in a second
	was    uint32  // level after the last report
	kept   int     // since the last report
	raise  int     // how many kept raise the level before the next report
	demand float64 // spans since then, if all episodes were drawn
	rate   float64 // of demand, a second; falls by half from report to report at most
}

// budgetOf is the part of the buffer that spans of episodes may fill in a second.
const budgetOf = 2

// highest level: one in 65,536.
const highest = 16

func (d *draw) init(budget int) { d.budget, d.raise = max(budget, 1), max(budget, 1) }

// ask decides about an episode that begins.
func (d *draw) ask(flow uint64) (level uint32, drawn bool) {
	level = d.level.Load()
	if drawn = mix(flow) <= math.MaxUint64>>level; drawn {
		d.drawn.Add(1)
	} else {
		d.leftOut.Add(1)
	}
	return level, drawn
}

// mix spreads a flow's bits evenly (the finalizer of splitmix64): those of FNV
// are not, where ids differ in their last letter.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// counts are the episodes since it was asked last.
func (d *draw) counts() (drawn, leftOut int64) { return d.drawn.Swap(0), d.leftOut.Swap(0) }

// note counts a span of an episode that was drawn at a level. A second that has
// more than its budget is thinned at once, and again after each sixteenth of it: so
// it has two budgets at most, of episodes that begin in it.
func (d *draw) note(level uint32) {
	d.kept++
	d.demand += float64(uint64(1) << level)
	if d.kept < d.raise {
		return
	}
	d.raise += max(d.budget/16, 1)
	d.level.Store(min(d.level.Load()+1, highest))
}

// adjust makes the level what the time since the last report, and those before it,
// asked for. It goes down when it fits with a quarter to spare.
func (d *draw) adjust(passed int64) {
	d.rate = max(d.demand/max(time.Duration(passed), reportEvery/2).Seconds(), d.rate/2)
	d.kept, d.demand, d.raise = 0, 0, d.budget
	level := d.was
	for level < highest && math.Ldexp(d.rate, -int(level)) > float64(d.budget) {
		level++
	}
	for level > 0 && math.Ldexp(d.rate, 1-int(level)) <= .75*float64(d.budget) {
		level--
	}
	d.was = level
	d.level.Store(level)
}
