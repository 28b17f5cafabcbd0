package replay

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/subjects"
)

// Steps are the training steps From to To, both included; the zero value is no
// restriction.
type Steps struct{ From, To subjects.Step }

// Any reports whether all is meant, trained on or not.
func (s Steps) Any() bool { return s == Steps{} }

// Has reports whether a step is one of them.
func (s Steps) Has(n subjects.Step) bool { return s.Any() || n >= s.From && n <= s.To }

// Filter chooses trajectories; the zero value chooses all. Of a list one must
// fit, of the fields all.
type Filter struct {
	// Steps that trained on it, as the ledger says.
	Steps        Steps
	Groups       []subjects.GroupID
	Producers    []string
	Environments []string
	Statuses     []subjects.Status
	// Since and Until bound the time at which the server stored it: [Since, Until).
	Since, Until time.Time
	// First and Last bound the sequence in ROLLOUTS, both included; 0: open.
	First, Last uint64
}

// Validate reports the first value that can choose nothing.
func (f *Filter) Validate() error {
	for _, s := range f.Statuses {
		if !s.Valid() {
			return fmt.Errorf("status %q: want %s, %s, %s, %s or %s", s, subjects.Succeeded, subjects.Truncated, subjects.Overlong, subjects.Failed, subjects.Aborted)
		}
	}
	switch {
	case !f.Steps.Any() && (f.Steps.From < 1 || f.Steps.To < f.Steps.From):
		return fmt.Errorf("steps %d to %d: want the first, from 1, and then the last", f.Steps.From, f.Steps.To)
	case f.Last > 0 && f.Last < f.First:
		return fmt.Errorf("sequences %d to %d: want the first and then the last", f.First, f.Last)
	case !f.Until.IsZero() && !f.Until.After(f.Since):
		return errors.New("the time ends before it starts: want the earlier one first")
	}
	return nil
}

// takesAll reports whether everything within the bounds of time and sequence is
// chosen, whatever the headers say.
func (f *Filter) takesAll() bool {
	return f.Steps.Any() && len(f.Groups)+len(f.Producers)+len(f.Environments)+len(f.Statuses) == 0
}

// Match reports whether a trajectory is chosen. Its body is not looked at.
func (f *Filter) Match(r *Record) bool {
	return (f.Steps.Any() || r.Step > 0 && f.Steps.Has(r.Step)) &&
		r.Seq >= f.First && (f.Last == 0 || r.Seq <= f.Last) &&
		!r.Time.Before(f.Since) && (f.Until.IsZero() || r.Time.Before(f.Until)) &&
		oneOf(f.Groups, r.Entry.Group) && oneOf(f.Producers, r.Producer) &&
		oneOf(f.Environments, r.Entry.Environment) && oneOf(f.Statuses, r.Entry.Status)
}

func oneOf[T comparable](list []T, v T) bool { return len(list) == 0 || slices.Contains(list, v) }
