package advise

import (
	"math"

	"github.com/headrace/headrace/consumers/board"
)

// facts are what the rules look at, as parts from 0 to 1 where nothing else is
// said; NaN where they are unknown.
type facts struct {
	v *board.View
	// Of the trainer's last minute, its start left out.
	wait, train, compile, publish, checkpoint float64
	busy                                      float64 // of the engines' devices
	queued                                    float64 // requests that wait in the engines, by those that run
	generate, env                             float64 // of the episodes' time
	idle                                      float64 // of the minute, in which next to nothing was being played
	crowd                                     float64 // episodes in flight on average, by the most there were, while there were any
	tail                                      float64 // how much longer than half of the groups the slowest twentieth took
	zeroVariance, stale                       float64 // of the groups that closed lately
	taken                                     float64 // of the producers' slots
}

const (
	fewestSteps  = 3   // of a start, before anything is said
	fewestGroups = 16  // that closed, before anything is said of outcomes
	next         = .02 // of the most in flight: next to nothing
)

// look works the facts out; not ok: there are not enough.
func look(v *board.View) (f *facts, ok bool) {
	s := v.State
	r := &s.Trainer.Recent
	running := 1 - r.Start.Or(0)
	if s.Step.Committed < fewestSteps || !r.Wait.Known() || running < .2 {
		return nil, false
	}
	part := func(n board.Number) float64 { return n.Or(0) / running }
	f = &facts{v: v, wait: part(r.Wait), train: part(r.Train) + part(r.Prepare), compile: part(r.Compile), publish: part(r.Publish), checkpoint: part(r.Checkpoint),
		busy: float64(v.Busy), generate: float64(v.GenerateFraction), env: float64(v.EnvFraction)}
	f.flights(v.Minute.InFlight)
	f.tail = tail(&s.Groups.Ages)
	f.zeroVariance, f.stale = math.NaN(), math.NaN()
	if v.Closed >= fewestGroups {
		f.zeroVariance, f.stale = float64(v.ClosedZeroVariance)/float64(v.Closed), float64(v.ClosedStale)/float64(v.Closed)
	}
	f.engines()
	return f, true
}

// flights sums up how many episodes were in flight in the last minute.
func (f *facts) flights(column board.Column) {
	most, n := 0.0, 0.0
	for _, x := range column {
		if !math.IsNaN(x) {
			most, n = max(most, x), n+1
		}
	}
	f.idle, f.crowd = math.NaN(), math.NaN()
	if most == 0 {
		return
	}
	idle, sum := 0.0, 0.0
	for _, x := range column {
		if x <= next*most {
			idle++
		} else if !math.IsNaN(x) {
			sum += x
		}
	}
	f.idle, f.crowd = idle/n, sum/(n-idle)/most
}

// engines sums up what waits in the engines and how many slots are taken.
func (f *facts) engines() {
	running, waiting := 0.0, 0.0
	for i := range f.v.State.Engines {
		e := &f.v.State.Engines[i]
		running, waiting = running+e.Running.Or(0), waiting+e.Waiting.Or(0)
	}
	f.queued = waiting / running
	live, slots := 0.0, 0.0
	for i := range f.v.State.Producers {
		if p := &f.v.State.Producers[i]; p.Heard.Or(0) < 10 {
			live, slots = live+p.Live.Or(0), slots+p.Slots.Or(0)
		}
	}
	f.taken = live / slots
}

// tail is the age that 95 of 100 groups stay below, by that of half of them:
// read off a histogram, and so rough.
func tail(h *board.Histogram) float64 {
	all := int64(0)
	for _, n := range h.Counts {
		all += n
	}
	if all < fewestGroups {
		return math.NaN()
	}
	return quantile(h, .95*float64(all)) / quantile(h, .5*float64(all))
}

// quantile is where the n-th value lies, as if the values of a bin lay evenly in it.
func quantile(h *board.Histogram, n float64) float64 {
	below, low := 0.0, 0.0
	for i, count := range h.Counts {
		high := 2 * h.Edges[len(h.Edges)-1]
		if i < len(h.Edges) {
			high = h.Edges[i]
		}
		if c := float64(count); c > 0 && below+c >= n {
			return low + (high-low)*(n-below)/c
		}
		below, low = below+float64(count), high
	}
	return low
}
