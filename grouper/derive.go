package grouper

import (
	"math"

	"github.com/headrace/headrace/subjects"
)

// Derive decides once more what an entry of the ledger says was decided, from
// the same events: noted up to the entry's marks, and no further. The result has
// the entry's writer and marks; of two equal logs it is equal to the entry, but
// for State and Snapshot. Like [Core.Decide] it applies what it decides.
//
// How far the inspector was is not in the log. It need not be: the least mark
// under which the entry's groups and rounds could close gives the same entry as
// any other one that does not close more.
func (c *Core) Derive(e *subjects.Entry) *subjects.Entry {
	c.inspected = max(c.inspected, c.looksTo(e))
	c.since, c.unsaved = math.MinInt32, math.MinInt64 // a state is compared by its own bytes, not made again
	if e.EndText != "" {
		c.Finish(e.End, e.EndText)
	}
	out := c.Decide(e.At)
	if out == nil {
		return nil
	}
	out.Writer, out.Letters, out.State, out.Snapshot = e.Writer, e.Letters, e.State, e.Snapshot
	return out
}

// looksTo is the last ROLLOUTS sequence that the inspector must have read for
// an entry to close what it closes.
func (c *Core) looksTo(e *subjects.Entry) (seq uint64) {
	for i := range e.Verdicts {
		v := &e.Verdicts[i]
		switch v.Outcome {
		case subjects.Kept, subjects.Partial, subjects.ZeroVariance, subjects.Stale:
			for k := range v.Members {
				seq = max(seq, v.Members[k].Seq)
			}
		}
	}
	for i := range e.Evals {
		for _, r := range c.rounds {
			if r.step == e.Evals[i].Round {
				seq = max(seq, r.newest())
			}
		}
	}
	return seq
}

// Advantages are those of a group with these rewards.
func (c Config) Advantages(rewards []float64) []float64 {
	out := make([]float64, len(rewards))
	c.advantages(out, rewards)
	return out
}
