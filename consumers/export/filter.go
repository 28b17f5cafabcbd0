package export

import (
	"slices"

	"github.com/headrace/headrace/subjects"
)

// Filter chooses trajectories: those that every given field names. The zero
// value is all.
type Filter struct {
	Steps        []Steps // of the batch it is in, or the round of an evaluation
	Groups       []subjects.GroupID
	Producers    []string
	Environments []string
	Kinds        []subjects.Kind
	Statuses     []subjects.Status
}

// Steps is a range of steps, both ends included.
type Steps struct{ First, Last subjects.Step }

// index reports whether the headers alone leave the trajectory in.
func (f *Filter) index(e *subjects.IndexEntry, fate *Fate) bool {
	step := e.Round
	if fate != nil && fate.Step > 0 {
		step = fate.Step
	}
	return among(f.Groups, e.Group) && among(f.Environments, e.Environment) && among(f.Kinds, e.Kind) && among(f.Statuses, e.Status) &&
		(len(f.Steps) == 0 || slices.ContainsFunc(f.Steps, func(s Steps) bool { return step > 0 && s.First <= step && step <= s.Last }))
}

// all reports whether nothing is filtered.
func (f *Filter) all() bool {
	return len(f.Steps)+len(f.Groups)+len(f.Producers)+len(f.Environments)+len(f.Kinds)+len(f.Statuses) == 0
}

func among[T comparable](want []T, have T) bool { return len(want) == 0 || slices.Contains(want, have) }
