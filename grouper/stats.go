package grouper

import "github.com/headrace/headrace/subjects"

// Reason is why a trajectory was not trained on.
type Reason string

// The reasons; those of whole groups are their outcomes.
const (
	reasonNone      Reason = ""
	ReasonFailed    Reason = "failed"
	ReasonAborted   Reason = "aborted"
	ReasonRejected  Reason = "rejected"  // by the inspector
	ReasonDuplicate Reason = "duplicate" // of a slot that was filled
	ReasonLate      Reason = "late"      // its group had closed
	ReasonUnknown   Reason = "unknown"   // no such group or slot
	ReasonSurplus   Reason = "surplus"   // beyond the first GroupSize
	ReasonOverlong  Reason = "overlong"
	ReasonForged    Reason = "forged" // of a message that the gate refused, whatever it claims to be
)

func reasonOf(s subjects.Status) Reason {
	if s == subjects.Aborted {
		return ReasonAborted
	}
	return ReasonFailed
}

// Stats accounts for every training trajectory: Produced is Trained, plus all
// of Dropped, plus those of groups that are open or wait for their batch.
type Stats struct {
	Produced uint64
	Trained  uint64
	Dropped  map[Reason]uint64
	// Outcomes counts verdicts; a kept group that was dropped later counts twice.
	Outcomes map[subjects.Outcome]uint64
	// EvalUnused counts evaluation trajectories that came late or twice.
	EvalUnused uint64
}

func (s *Stats) drop(why Reason, n int) {
	if n > 0 {
		s.Dropped[why] += uint64(n)
	}
}

// Stats is a copy of the account.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Dropped, s.Outcomes = map[Reason]uint64{}, map[subjects.Outcome]uint64{}
	for k, v := range c.stats.Dropped {
		s.Dropped[k] = v
	}
	for k, v := range c.stats.Outcomes {
		s.Outcomes[k] = v
	}
	return s
}

// View is the state of a core for people and gauges.
type View struct {
	Open      int // groups being played or waiting to be
	Kept      int // groups waiting for their batch
	Held      int // trajectories of both
	InFlight  int // slots handed out without a trajectory
	Rounds    int // evaluations not finished
	Committed subjects.Step
	NextStep  subjects.Step // of the next batch
	Oldest    int64         // when the oldest open group began to be played, 0: none
	// Next is what the next decision waits for, Waiting the same in words.
	Next    Outlook
	Waiting string
	// Untouched reports that tasks are out and none of the open groups has a
	// trajectory; since Opened, when the newest of them was issued.
	Untouched bool
	Opened    int64
}

// View looks at the core.
func (c *Core) View(now int64) View {
	v := View{Open: len(c.open), Kept: len(c.kept), Rounds: len(c.rounds), Committed: c.trainer.committed, NextStep: c.lastStep + 1}
	v.Untouched = len(c.open)+len(c.rounds) > 0
	var oldest *group
	for _, g := range c.open {
		v.Held += len(g.members)
		v.InFlight += g.pending
		v.Opened = max(v.Opened, g.opened)
		v.Untouched = v.Untouched && g.first == 0
		if g.clock > 0 && (v.Oldest == 0 || g.clock < v.Oldest) {
			v.Oldest = g.clock
		}
		if oldest == nil || g.order < oldest.order {
			oldest = g
		}
	}
	for _, g := range c.kept {
		v.Held += len(g.members)
	}
	for _, r := range c.rounds {
		v.InFlight += r.pending
		v.Untouched = v.Untouched && r.first == 0
		v.Opened = max(v.Opened, r.opened)
	}
	v.Next = c.outlook(oldest, now)
	v.Waiting = v.Next.String()
	return v
}
