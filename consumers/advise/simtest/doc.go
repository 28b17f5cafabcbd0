// Package simtest plays a run that is not there: producers, engines,
// environments, a grouper and a trainer in virtual time, who tell a board what
// the real ones would: gauges each second, ledger entries, commits and spans.
//
// One idea explains its shape: a run that is limited by one thing is a row of
// numbers ([Run]), so that what an adviser says can be tested against what is
// true by construction. The same numbers give the same run.
package simtest

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/headrace/headrace/consumers/board"
)

// Run is what a simulated run is made of. Times are seconds.
type Run struct {
	Seconds float64 // how long it is watched
	Seed    uint64

	Slots    int     // episodes played at once
	Turns    int     // of an episode
	Prompt   int     // tokens that a turn adds to the context
	Answer   int     // tokens that a turn samples
	EnvTime  float64 // of a turn
	SlowPart float64 // of the episodes that are slow ...
	SlowBy   float64 // ... so many times as long in the environment

	Engines      int
	Rows         int     // of a device call
	CallTime     float64 // of a device call, full or not
	HostTime     float64 // between two calls, in which the device does nothing
	Chunk        int     // tokens that it samples for each row
	PromptTime   float64 // for each token of a prompt that is not cached
	CacheHit     float64 // part of the context before a turn that is cached
	SyncTime     float64 // that an engine is paused for new weights
	DeviceSilent bool    // the engine does not say how busy its device is, as others' do not

	GroupSize, GroupsPerBatch, MaxStaleness int
	ZeroVariance                            float64 // part of the groups

	TrainTime      float64 // of a step
	CompilePart    float64 // of the steps that compile ...
	CompileTime    float64 // ... so long; the first does
	PublishTime    float64 // after each step
	CheckpointTime float64 // after each step
}

// Base is a run in which engines and trainer are both at work: variations of it
// are limited by what they vary.
func Base() Run {
	return Run{Seconds: 240, Seed: 1, Slots: 64, Turns: 2, Prompt: 20, Answer: 64, EnvTime: .02, Engines: 1, Rows: 64, CallTime: .03, Chunk: 4, PromptTime: 2e-5,
		CacheHit: .9, SyncTime: .02, GroupSize: 8, GroupsPerBatch: 8, MaxStaleness: 1, TrainTime: 1.05, PublishTime: .03}
}

// Slower is the run with everything taking so many times as long.
func (r Run) Slower(by float64) Run {
	for _, x := range []*float64{&r.Seconds, &r.EnvTime, &r.CallTime, &r.HostTime, &r.PromptTime, &r.SyncTime, &r.TrainTime, &r.CompileTime, &r.PublishTime, &r.CheckpointTime} {
		*x *= by
	}
	return r
}

// world is the run as it goes.
type world struct {
	Run
	board  *board.Board
	rand   *rand.Rand
	now    float64
	queue  moments
	n      int
	tasks  []*episode // that nobody plays yet
	engine []*engine
	producer
	grouper
	trainer
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (w *world) time() time.Time { return at(w.now) }

func at(s float64) time.Time { return epoch.Add(time.Duration(s * 1e9)) }

// Play plays the run into a board, which is returned with the time it is then.
func Play(r Run, advise func(*board.View) []board.Advice) (*board.Board, time.Time) {
	w := &world{Run: r, rand: rand.New(rand.NewPCG(r.Seed, 1)), board: board.New(board.Config{Run: "sim", Recipe: "sim", Started: epoch, MaxStaleness: int64(r.MaxStaleness), Advise: advise})}
	for i := range r.Engines {
		w.engine = append(w.engine, &engine{name: "engine-" + string(rune('0'+i))})
	}
	w.grouper.open = map[int]*group{}
	w.issue()
	w.receive()
	w.each(1, w.report)
	for len(w.queue) > 0 && w.queue[0].at <= r.Seconds {
		m := heap.Pop(&w.queue).(moment) //nolint:forcetypeassert // of moments
		w.now = m.at
		m.do()
	}
	w.now = r.Seconds
	return w.board, w.time()
}

// after does something some seconds from now.
func (w *world) after(seconds float64, do func()) {
	w.n++
	heap.Push(&w.queue, moment{w.now + max(seconds, 0), w.n, do})
}

func (w *world) each(seconds float64, do func()) {
	w.after(seconds, func() { do(); w.each(seconds, do) })
}

type moment struct {
	at float64
	n  int // of two at once, the one that was asked for first
	do func()
}

type moments []moment

func (m moments) Len() int { return len(m) }
func (m moments) Less(i, j int) bool {
	return m[i].at < m[j].at || m[i].at == m[j].at && m[i].n < m[j].n
}
func (m moments) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any)   { *m = append(*m, x.(moment)) } //nolint:forcetypeassert // by heap
func (m *moments) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
