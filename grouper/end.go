package grouper

import (
	"cmp"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// ending is how a run is to end before it has done what it was for.
type ending struct{ why, text string }

// Finish asks for the end of the run, for one of the reasons of
// [subjects.EndComplete] and its like: from here on Decide opens nothing, cuts
// no batch, cancels every group that is open or waits for its batch, and then
// says why and, in text, what a person wants to know. A core that is restored
// before the ledger has the end does not remember the wish.
func (c *Core) Finish(why, text string) {
	if c.ended == "" {
		c.ending = &ending{why, cmp.Or(text, why)}
	}
}

// conclude cancels what there is, as much as an entry holds, and ends the run
// when nothing is left. The text in an entry says that it is part of an end.
func (c *Core) conclude(e *subjects.Entry, now int64) {
	e.EndText = c.ending.text
	if c.cancelRest(e, now); len(c.open)+len(c.kept) > 0 {
		return
	}
	e.End = c.ending.why
	c.applyEnd(e.End)
}

// cancelRest closes what is open or kept, as much as an entry holds.
func (c *Core) cancelRest(e *subjects.Entry, now int64) {
	members := 0
	for len(c.kept) > 0 && members <= maxMembers {
		c.dropKept(e, c.kept[0], subjects.Cancelled, now)
		members += len(e.Verdicts[len(e.Verdicts)-1].Members)
	}
	groups := make([]*group, 0, len(c.open))
	for _, g := range c.open {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, byOrder)
	for _, g := range groups {
		if members > maxMembers {
			return
		}
		e.Verdicts = append(e.Verdicts, c.verdict(g, subjects.Cancelled, now))
		members += 1 + len(e.Verdicts[len(e.Verdicts)-1].Members)
		_ = c.applyVerdict(&e.Verdicts[len(e.Verdicts)-1])
	}
}

// finish ends the run when its last step is trained and evaluated.
func (c *Core) finish(e *subjects.Entry) {
	last, known := c.final()
	if !known || c.trainer.committed < last || len(c.rounds) > 0 || (c.cfg.Evaluation.Every > 0 && c.lastRound < last) {
		return
	}
	if len(c.open)+len(c.kept) > 0 { // more to cancel than an entry holds
		return
	}
	e.End = subjects.EndDataset
	if c.cfg.Steps > 0 && int64(last) >= c.cfg.Steps {
		e.End = subjects.EndComplete
	}
	c.applyEnd(e.End)
}

// applyEnd ends the run; an evaluation that is not over then has no result.
func (c *Core) applyEnd(why string) {
	if c.ended = why; why == "" {
		return
	}
	for _, r := range c.rounds {
		r.gone = true
	}
	c.rounds, c.ending = nil, nil
}
