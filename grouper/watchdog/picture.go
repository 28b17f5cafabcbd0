package watchdog

import (
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/subjects"
)

// Silence is how long nothing must be heard of a process that reports every
// second before it counts as gone.
const Silence = 10 * time.Second

// Recent is how many groups in a row must have been dropped before that is the
// reason why no batch comes.
const Recent = 10

// Picture is all that the watchdog looks at. Times are the observer's own, of
// arrival: no clock but its own is trusted.
type Picture struct {
	Now  time.Time
	View grouper.View
	// Moved is when a useful trajectory was last folded, something decided, or
	// heard of the trainer; Progressed when a batch was last cut, a step
	// committed or an evaluation finished.
	Moved, Progressed time.Time
	// Closed are the groups closed since the last batch, at most [Recent], oldest
	// first: the last verdict on each.
	Closed []subjects.Outcome

	Producers []Producer
	// Engines are those registered; EnginesKnown is false while that is not known.
	Engines      []subjects.EngineRecord
	EnginesKnown bool
	Bridges      []Bridge
	// HintAt is when the inspector was last heard of, Inspected what it said, Last
	// the end of ROLLOUTS.
	HintAt          time.Time
	Inspected, Last uint64
	// RolloutBytes of RolloutLimit are in ROLLOUTS; limit 0: not known, or none.
	RolloutBytes, RolloutLimit int64
	// Trouble, when its Code is set, is why the grouper cannot write, since TroubleAt.
	Trouble   Cause
	TroubleAt time.Time
}

// Cause is a stage, why it holds the run up, and the sentence.
type Cause struct {
	Stage string
	Code  subjects.StallCode
	Text  string
}

// Producer is what was last heard of a producer.
type Producer struct {
	Name        string
	Heard       time.Time
	Held        int  // leases
	EnginesLive int  // that it reaches; -1: not said
	Blocked     bool // ROLLOUTS takes nothing more
	// Leases are the oldest it holds, as of LeasesAt.
	Leases   []subjects.HeldLease
	LeasesAt time.Time
}

// Bridge is what was last heard of a bridge.
type Bridge struct {
	Name                 string
	Heard                time.Time
	Trainers             int // connected
	Ready                int // batches built and not given out
	Delivered, Committed subjects.Step
	Says                 string // the trainer, of its progress
}

func (p *Picture) silent(heard time.Time) bool { return p.Now.Sub(heard) > Silence }

// live are the producers that were heard of lately.
func (p *Picture) live() (out []Producer) {
	for _, x := range p.Producers {
		if !p.silent(x.Heard) {
			out = append(out, x)
		}
	}
	return out
}

// bridge is the bridge that matters: one that is live and has a trainer, before
// one that is live, before the last one heard of.
func (p *Picture) bridge() (b Bridge, known bool) {
	rank := func(b *Bridge) int {
		switch {
		case p.silent(b.Heard):
			return 0
		case b.Trainers == 0:
			return 1
		}
		return 2
	}
	for i := range p.Bridges {
		x := &p.Bridges[i]
		if r, best := rank(x), rank(&b); !known || r > best || r == best && x.Heard.After(b.Heard) {
			b, known = *x, true
		}
	}
	return b, known
}

// holder is a producer that holds some of the tasks that are waited for.
type holder struct {
	Producer
	tasks int
	age   time.Duration // of its oldest such lease
}

// holders are the producers that hold what is waited for, the oldest lease first.
// What a producer that is gone held is in the queue again once its lease ran out:
// it counts only where no live producer has any.
func (p *Picture) holders() (out []holder) {
	prefix := string(p.View.Next.Group) + "/"
	if p.View.Next.Wait == grouper.WaitEpisodes {
		prefix, _ = strings.CutSuffix(string(subjects.EvalGroup(p.View.Next.Step, 0)), "0")
	}
	var gone []holder
	for _, x := range p.Producers {
		h := holder{Producer: x}
		for _, l := range x.Leases {
			if strings.HasPrefix(l.Task, prefix) {
				h.tasks++
				h.age = max(h.age, time.Duration(l.Age*float64(time.Second))+p.Now.Sub(x.LeasesAt))
			}
		}
		switch {
		case h.tasks == 0:
		case p.silent(x.Heard):
			gone = append(gone, h)
		default:
			out = append(out, h)
		}
	}
	if len(out) == 0 {
		out = gone
	}
	slices.SortFunc(out, func(a, b holder) int { return int(b.age - a.age) })
	return out
}
