package grouper

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// maxMembers bounds the members of one entry's verdicts, and its retries, and so
// its bytes: what is left over goes into the next one. A batch is never cut in two.
const maxMembers = 2048

// stateEvery is how many items are decided between two states at least:
// replaying them takes a fraction of a second, and a state is large. Tests lower it.
var stateEvery = defaultStateEvery

const defaultStateEvery = 8192

// Decide returns what follows from the events so far, as the next entry of the
// ledger, or nil. The decisions are applied already: if the entry cannot be
// appended, the core is to be thrown away and restored. now is the caller's
// clock, Unix nanoseconds. Call it until it returns nil.
func (c *Core) Decide(now int64) *subjects.Entry {
	if c.ended != "" {
		return nil
	}
	now = max(now, c.now)
	e := &subjects.Entry{V: subjects.SchemaVersion, At: now, Rollouts: c.rollouts, Weights: c.weights}
	if c.decide(e, now); items(e) == 0 {
		return nil
	}
	c.now = now
	c.setClocks()
	c.seal(e)
	return e
}

// decide fills in an entry.
func (c *Core) decide(e *subjects.Entry, now int64) {
	if c.ending != nil {
		c.conclude(e, now)
		return
	}
	c.closeGroups(e, now)
	c.closeRounds(e, now)
	c.cutBatches(e, now)
	c.retrySlots(e)
	c.openRounds(e, now)
	c.openGroups(e, now)
	c.finish(e)
}

// items counts an entry's decisions by what they cost to replay.
func items(e *subjects.Entry) int {
	n := len(e.Issued) + len(e.Retries) + len(e.Evals) + len(e.Batches) + len(e.End)
	for i := range e.Verdicts {
		n += 1 + len(e.Verdicts[i].Members)
	}
	return n
}

// seal fills in what an entry says of the log, and adds the state when there
// is much to replay since the last one.
func (c *Core) seal(e *subjects.Entry) {
	e.Low = c.low()
	e.Snapshot = c.snapshot
	c.since += items(e)
	held := len(c.closed.ring)
	for _, g := range c.kept {
		held += len(g.members)
	}
	for _, g := range c.open {
		held += len(g.members)
	}
	if c.since < stateEvery+2*held && (c.cfg.StateBytes == 0 || c.unsaved < c.cfg.StateBytes) {
		return
	}
	if state := c.Snapshot(); len(state) <= maxState {
		e.State, e.Snapshot = state, 0
	} else {
		c.since = 0
	}
	c.unsaved = 0 // one that is too large is not made for each entry
}

// DropState takes the state out of the entry that Decide returned last, which
// is too large with it; a restart then replays from further back.
func (c *Core) DropState(e *subjects.Entry) { e.State, e.Snapshot, c.since = nil, c.snapshot, 0 }

// Appended notes the ledger sequence of the entry that Decide returned last.
func (c *Core) Appended(e *subjects.Entry, seq uint64) {
	if len(e.State) > 0 {
		c.snapshot, c.since, c.unsaved = seq, 0, 0
	}
}

// maxIssue bounds what an entry may issue at once, in groups or held-out tasks.
const maxIssue = 1 << 20

// Apply replays an entry of the ledger. The events it was decided on must have
// been noted before, up to the marks in it.
func (c *Core) Apply(e *subjects.Entry, seq uint64) error {
	for i := range e.Issued {
		if n := e.Issued[i].Count; n < 0 || n > maxIssue {
			return fmt.Errorf("ledger entry %d: %d tasks issued at once", seq, n)
		}
	}
	c.now = max(c.now, e.At)
	for i := range e.Verdicts {
		if err := c.applyVerdict(&e.Verdicts[i]); err != nil {
			return fmt.Errorf("ledger entry %d: %w", seq, err)
		}
	}
	for i := range e.Evals {
		c.applyEval(&e.Evals[i])
	}
	for i := range e.Batches {
		if err := c.applyBatch(&e.Batches[i]); err != nil {
			return fmt.Errorf("ledger entry %d: %w", seq, err)
		}
	}
	for i := range e.Retries {
		c.applyRetry(&e.Retries[i], e.At)
	}
	for i := range e.Issued {
		c.applyIssue(&e.Issued[i], e.At)
	}
	c.applyEnd(e.End)
	c.setClocks()
	c.since += items(e)
	c.Appended(e, seq)
	return nil
}

// retrySlots hands out again what failed, of groups that are still open, as
// much as an entry holds.
func (c *Core) retrySlots(e *subjects.Entry) {
	groups := make([]*group, 0, len(c.failed))
	for g := range c.failed {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, byOrder)
	for _, g := range groups {
		if len(e.Retries) >= maxMembers {
			return
		}
		delete(c.failed, g)
		for i := range g.slots {
			if s := &g.slots[i]; s.state == failed && !s.filled {
				e.Retries = append(e.Retries, subjects.Retry{Kind: subjects.Train, Group: g.id, Slot: subjects.Slot(i),
					Attempt: subjects.Attempt(s.attempt) + 1, Reason: causes[s.cause]})
				c.applyRetry(&e.Retries[len(e.Retries)-1], e.At)
			}
		}
	}
	for _, r := range c.rounds {
		c.retryEpisodes(e, r)
	}
}

func (c *Core) applyRetry(r *subjects.Retry, at int64) {
	if r.Kind == subjects.Eval {
		c.applyEvalRetry(r, at)
		return
	}
	g := c.open[r.Group]
	if g == nil || int(r.Slot) >= len(g.slots) {
		return
	}
	s := &g.slots[r.Slot]
	s.attempt, s.state, s.cause, s.issued = int16(r.Attempt), waiting, causeNone, at
	g.recount()
	if c.cfg.SlotTimeout > 0 {
		c.timer(at)
	}
}
