package synth

import (
	"fmt"
	"math"

	"github.com/headrace/headrace/subjects"
)

const (
	engineCount   = 4
	producerCount = 6
	slotsEach     = 160
	// flush is how long the bus takes to store a bundle: what finishes meanwhile is the next one.
	flush = 160 * millisecond
)

// engine is a made-up inference engine and the weights it has served.
type engine struct {
	name     string
	history  []served
	running  int
	paused   bool
	prompt   float64
	cached   float64
	sampled  float64
	requests float64
	aborted  float64
	syncs    float64
	syncTime float64
}

type served struct {
	at      int64
	version subjects.PolicyVersion
}

// at is the version that the engine served at a time.
func (e *engine) at(t int64) subjects.PolicyVersion {
	for i := len(e.history) - 1; i > 0; i-- {
		if e.history[i].at <= t {
			return e.history[i].version
		}
	}
	return e.history[0].version
}

func (e *engine) serve(at int64, v subjects.PolicyVersion) {
	e.history = append(e.history, served{at, v})
	if len(e.history) > 256 { // no episode is that long
		e.history = e.history[128:]
	}
}

// producer plays episodes and publishes what came of them.
type producer struct {
	name    string
	life    string
	counter uint64
	stored  uint64 // messages
	live    int
	pending []finished
	flying  bool
	counts  map[string]float64
}

func (w *world) openFleet() {
	for i := range engineCount {
		e := &engine{name: fmt.Sprintf("engine-%d", i+1)}
		e.serve(w.now, 0)
		w.engines = append(w.engines, e)
	}
	for i := range producerCount {
		w.producers = append(w.producers, &producer{name: fmt.Sprintf("producer-%d", i+1), life: fmt.Sprintf("life%d", i+1), counts: map[string]float64{}})
	}
}

// assign gives tasks to the producers that have slots free, in turn.
func (w *world) assign() {
	for len(w.tasks) > 0 {
		var p *producer
		for _, x := range w.producers {
			if x.live < slotsEach && (p == nil || x.live < p.live) {
				p = x
			}
		}
		if p == nil || len(w.engines[0].history) < 2 { // nobody serves yet
			return
		}
		t := w.task(w.tasks[0])
		w.tasks = w.tasks[1:]
		p.live++
		p.counts["leases_taken"]++
		w.begin(p, t)
	}
}

// begin plays an episode: it decides what becomes of it, and when.
func (w *world) begin(p *producer, t task) {
	f := w.fate(t)
	e := w.engines[(int(ordinal(t.Group))+int(t.Slot))%len(w.engines)] //nolint:gosec // small
	start := w.now + w.rng.Int64N(20*millisecond)
	if f.hangs {
		w.after(4*60*second, func() { p.live--; w.assign() }) // the producer holds its lease until it is killed
		return
	}
	e.running++
	w.after(start-w.now+f.lasts, func() {
		p.live--
		e.running--
		w.finish(p, e, t, f, start)
		w.assign()
	})
}

// fate is what becomes of an episode.
type fate struct {
	status subjects.Status
	reason string
	reward float64
	parts  map[string]float64
	kind   int // of story
	won    bool
	hangs  bool
	twice  bool // it is published twice
	broken bool // its body is one that no trainer could use
	lasts  int64
}

// skill is how likely the policy of now wins an easy task.
func (w *world) skill() float64 {
	return 0.12 + 0.7*(1-math.Exp(-3*float64(w.trainer.committed)/float64(w.o.Steps)))
}

func (w *world) fate(t task) (f fate) {
	r := w.rng
	hard := float64(uint64(t.seed)*2654435761%1000) / 1000 //nolint:gosec // a hash
	chance := min(0.97, max(0.03, w.skill()+0.55*(0.5-hard)))
	if t.Greedy {
		chance = min(0.99, chance+0.06)
	}
	f.won = r.Float64() < chance
	f.lasts = int64(1.2 * float64(second) * math.Exp(0.45*r.NormFloat64()))
	ending := int(w.trainer.committed) >= w.o.Steps-min(80, w.o.Steps/2)
	if r.IntN(400) == 0 && t.Kind == subjects.Train && !ending {
		f.lasts *= 12 // the long tail
	}
	f.status = subjects.Succeeded
	switch n := r.IntN(1000); {
	case n < 25:
		f.fail(r.IntN(4))
	case n < 28:
		f.status, f.reason = subjects.Aborted, "the producer was told to stop"
	case n < 58:
		f.status, f.reason, f.won = subjects.Truncated, "turn limit of 8 reached", false
	case n < 73:
		f.status, f.reason, f.kind, f.won = subjects.Overlong, "token budget spent", isCut, false
	case n < 83:
		f.kind = isForked
	case n < 103:
		f.kind = isRich
	case n == 103 && r.IntN(2) == 0:
		f.kind = isLong
	}
	f.broken = r.IntN(4000) == 0
	f.twice = !f.broken && r.IntN(5000) == 0
	if !ending { // or the run would end with minutes of waiting
		w.misfortune(t, &f)
	}
	f.score(t, r.Float64())
	return f
}

func (f *fate) fail(n int) {
	f.status, f.reason = subjects.Failed, [...]string{"engine: connection reset by peer", "engine: no answer within 2m0s",
		"environment: step: exit status 137", "environment: reset: no such file or directory: “карта.json”"}[n]
}

// misfortune strikes some groups as a whole: that is how groups end otherwise than
// in a batch.
func (w *world) misfortune(t task, f *fate) {
	switch n := ordinal(t.Group); {
	case n%401 == 33 && t.Slot >= 6:
		f.hangs = true // the group's deadline passes
	case n%307 == 11 && t.Slot < 2:
		f.fail(2) // too few are left
	case n%89 == 17 && t.Slot == 4:
		f.fail(3) // enough are
	case n%211 == 5 && t.Slot == 1 && t.Attempt == 0:
		f.lasts = 90 * second // its slot is handed out again meanwhile
	}
}

// score gives the reward and its parts.
func (f *fate) score(t task, x float64) {
	if !f.status.Trained() {
		return
	}
	won := 0.0
	if f.won {
		won = 1
	}
	f.reward = won
	if t.Env == calculatorEnv {
		format := math.Round(x*4) / 4
		f.parts = map[string]float64{"correct": won, "format": format}
		f.reward = 0.9*won + 0.1*format
	}
}
