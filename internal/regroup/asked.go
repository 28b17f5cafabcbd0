package regroup

import (
	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/subjects"
)

// asked are the episodes that a ledger hands out.
type asked struct {
	slots   int
	groups  map[subjects.GroupID]bool
	rounds  map[subjects.Step]bool
	retries map[play]bool
}

// play names one attempt at a slot.
type play struct {
	group   subjects.GroupID
	slot    subjects.Slot
	attempt subjects.Attempt
}

func newAsked(cfg grouper.Config) *asked {
	return &asked{slots: cfg.Slots(), groups: map[subjects.GroupID]bool{}, rounds: map[subjects.Step]bool{}, retries: map[play]bool{}}
}

// add notes what an entry hands out.
func (a *asked) add(e *subjects.Entry) {
	for _, i := range e.Issued {
		if i.Kind == subjects.Eval {
			a.rounds[i.Round] = true
			continue
		}
		for n := range i.Count {
			a.groups[subjects.TrainGroup(i.First+uint64(n))] = true //nolint:gosec // a count
		}
	}
	for _, r := range e.Retries {
		a.retries[play{r.Group, r.Slot, r.Attempt}] = true
	}
}

// has reports whether a trajectory was asked for.
func (a *asked) has(e *subjects.IndexEntry) bool {
	if e.Attempt > 0 && !a.retries[play{e.Group, e.Slot, e.Attempt}] {
		return false
	}
	if e.Kind == subjects.Eval {
		return a.rounds[e.Round]
	}
	return a.groups[e.Group] && int(e.Slot) < a.slots
}
