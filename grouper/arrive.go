package grouper

import "github.com/headrace/headrace/subjects"

// Arrive notes a message of ROLLOUTS: what the gate admitted of it, each at its
// address, and how much it refused. It returns how many entries could not be read.
// Whoever folds the log does it through here, and so counts the same.
func (c *Core) Arrive(seq uint64, at int64, a *subjects.Admission) (unreadable int) {
	at = c.moment(at)
	c.giveUpEarly(at)
	if a.Early && a.Err == nil {
		c.arriveEarly(seq, at, a.Producer)
	}
	c.begins = c.joined(seq, a)
	for i := range a.Arrivals {
		if a.Arrivals[i].Err != nil {
			unreadable++
			continue
		}
		c.Rollout(subjects.Address{Seq: seq, Index: i}, at, &a.Arrivals[i].Entry)
	}
	if a.Refused > 0 {
		c.stats.Produced += uint64(a.Refused)
		c.stats.drop(ReasonForged, a.Refused)
	} else if a.Err != nil {
		unreadable++
	}
	c.begins = 0
	c.Folded(seq)
	return unreadable
}
