package advise

import (
	"math"

	"github.com/headrace/headrace/consumers/board"
)

// facts are what the rules look at, as parts from 0 to 1 where nothing else is
// said; NaN where they are unknown.
type facts struct {
	v *board.View
	// Of the trainer's time, its starts left out.
	wait, train, compile, writes float64
	busy                         float64 // of the engines' devices
	queued                       float64 // requests that wait in the engines, by those that run
	generate, env                float64 // of the episodes' time
	idle                         float64 // of the time, in which nothing was being played
	used                         float64 // of what the engines could compute
	tail, tailPart               float64 // how many times as long as half of the groups the slowest took; how many these are
	zeroVariance, stale          float64 // of the groups that closed lately
	taken                        float64 // of the producers' slots
}

const (
	fewestSteps  = 3  // of a start, before anything is said
	fewestGroups = 16 // that closed, before anything is said of outcomes
)

// look works the facts out; not ok: there are not enough.
func look(v *board.View) (f *facts, ok bool) {
	s := v.State
	d := &v.Doing
	if s.Step.Committed < fewestSteps || !d.Wait.Known() {
		return nil, false
	}
	f = &facts{v: v, wait: float64(d.Wait), train: d.Train.Or(0) + d.Prepare.Or(0), compile: d.Compile.Or(0), writes: d.Publish.Or(0) + d.Checkpoint.Or(0),
		busy: float64(v.Busy), generate: float64(v.GenerateFraction), env: float64(v.EnvFraction)}
	f.idle = idle(v.Series.InFlight)
	f.tail, f.tailPart, f.taken = float64(v.Tail), float64(v.TailPart), float64(v.Taken)
	f.used = f.busy * v.RowFill.Or(1)
	f.zeroVariance, f.stale = math.NaN(), math.NaN()
	if v.Closed >= fewestGroups {
		f.zeroVariance, f.stale = float64(v.ClosedZeroVariance)/float64(v.Closed), float64(v.ClosedStale)/float64(v.Closed)
	}
	f.engines()
	return f, true
}

// idle is the part of the time in which nothing was in flight.
func idle(inFlight board.Column) float64 {
	none, n := 0.0, 0.0
	for _, x := range inFlight {
		if !math.IsNaN(x) {
			n++
		}
		if x < 1 {
			none++
		}
	}
	return none / n
}

// engines sums up what waits in the engines.
func (f *facts) engines() {
	running, waiting := 0.0, 0.0
	for i := range f.v.State.Engines {
		e := &f.v.State.Engines[i]
		running, waiting = running+e.Running.Or(0), waiting+e.Waiting.Or(0)
	}
	f.queued = waiting / running
}
