package grouper

import (
	"fmt"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// cutBatches cuts every batch that is full and that the trainer may be ahead by,
// as much as an entry holds: a batch of more members than that has one of its own.
func (c *Core) cutBatches(e *subjects.Entry, now int64) {
	for entryMembers(e) <= maxMembers {
		if steps := subjects.Step(c.cfg.Steps); steps > 0 && c.lastStep >= steps {
			c.cancelRest(e, now)
			return
		}
		step := c.lastStep + 1
		c.dropStale(e, step, now)
		if int64(step) > int64(c.trainer.committed)+1+int64(*c.cfg.MaxStaleness) {
			return
		}
		groups := c.pick()
		if groups == nil {
			c.dropRemainder(e, now)
			return
		}
		if n := entryMembers(e); n > 0 && n+groupMembers(groups) > maxMembers {
			return
		}
		e.Batches = append(e.Batches, c.batch(step, groups))
		_ = c.applyBatch(&e.Batches[len(e.Batches)-1]) // of groups that are kept
	}
}

// entryMembers counts the trajectories that an entry lists: what its bytes are made of.
func entryMembers(e *subjects.Entry) (n int) {
	for i := range e.Verdicts {
		n += len(e.Verdicts[i].Members)
	}
	for i := range e.Batches {
		for k := range e.Batches[i].Groups {
			n += len(e.Batches[i].Groups[k].Members)
		}
	}
	return n
}

func groupMembers(groups []*group) (n int) {
	for _, g := range groups {
		n += len(g.members)
	}
	return n
}

// dropStale drops the kept groups that the batch of a step may no longer use,
// and bounds how many external ones wait.
func (c *Core) dropStale(e *subjects.Entry, step subjects.Step, now int64) {
	if c.cfg.Stale == PolicyDrop {
		for _, g := range slices.Clone(c.kept) {
			if c.tooStale(g, step) {
				c.dropKept(e, g, subjects.Stale, now)
			}
		}
	}
	limit := 8 * (1 + *c.cfg.MaxStaleness) * c.cfg.batchGroups()
	for c.external() && len(c.kept) > limit {
		c.dropKept(e, c.kept[0], subjects.Stale, now)
	}
}

// dropRemainder drops the groups too few for a batch when the dataset has ended.
func (c *Core) dropRemainder(e *subjects.Entry, now int64) {
	for c.cfg.Remainder == PolicyDrop && c.drained() && len(c.kept) > 0 {
		c.dropKept(e, c.kept[0], subjects.Cancelled, now)
	}
}

// pick chooses the groups of the next batch; nil if it is not full.
func (c *Core) pick() []*group {
	groups := c.inTurn()
	var out []*group
	full := false
	if c.cfg.TokensPerBatch > 0 {
		out, full = c.pickTokens(groups)
	} else {
		out, full = c.pickGroups(groups)
	}
	if full || (c.cfg.Remainder == PolicyKeep && c.drained() && len(out) > 0) {
		return out
	}
	return nil
}

// inTurn are the kept groups that may be batched, by the order policy.
func (c *Core) inTurn() []*group {
	switch c.cfg.Order {
	case OrderFreshest:
		groups := slices.Clone(c.kept)
		slices.SortStableFunc(groups, func(a, b *group) int { return int(b.oldest() - a.oldest()) })
		return groups
	case OrderInOrder:
		first := c.order + 1
		for _, g := range c.open {
			first = min(first, g.order)
		}
		n := 0
		for n < len(c.kept) && c.kept[n].order < first {
			n++
		}
		return c.kept[:n]
	}
	return c.kept
}

func (c *Core) pickTokens(groups []*group) (out []*group, full bool) {
	tokens := 0
	for _, g := range groups {
		n := g.tokens()
		if len(out) > 0 && tokens+n > c.cfg.TokensPerBatch {
			return out, true
		}
		tokens += n
		if out = append(out, g); len(out) == c.cfg.MaxGroups || tokens >= c.cfg.TokensPerBatch {
			return out, true
		}
	}
	return out, false
}

// pickGroups takes each environment's minimum first, then what comes first.
func (c *Core) pickGroups(groups []*group) (out []*group, full bool) {
	size := c.cfg.GroupsPerBatch
	short := slices.Clone(c.need)
	left := size
	for _, n := range short {
		left -= n
	}
	for _, g := range groups {
		if short[g.env] > 0 {
			short[g.env]--
		} else if left > 0 {
			left--
		} else {
			continue
		}
		if out = append(out, g); len(out) == size {
			return out, true
		}
	}
	for env, n := range short {
		if n > 0 && c.live[env] == c.waiting(env) && c.exhausted(env) {
			left += n // it has no more to give
		}
	}
	if left > 0 && len(out) < size { // places given up by an exhausted environment
		for _, g := range groups {
			if len(out) < size && !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out, len(out) == size
}

// waiting is the number of kept groups of an environment.
func (c *Core) waiting(env int) (n int) {
	for _, g := range c.kept {
		if g.env == env {
			n++
		}
	}
	return n
}

func (c *Core) batch(step subjects.Step, groups []*group) subjects.Batch {
	b := subjects.Batch{Step: step, Watermark: c.low()}
	members := 0
	for _, g := range groups {
		bg := subjects.BatchGroup{Group: g.id, Environment: g.name, Members: slices.Clone(g.members)}
		c.setAdvantages(bg.Members)
		for i := range bg.Members {
			m := &bg.Members[i]
			b.Rows += m.Segments
			b.Tokens += m.Tokens
			b.Longest = max(b.Longest, m.Longest)
			s := staleness(step, m.MinVersion)
			b.StalenessMean += float64(s)
			b.StalenessMax = max(b.StalenessMax, s)
			b.RewardMean += m.Reward
		}
		members += len(bg.Members)
		b.Groups = append(b.Groups, bg)
	}
	b.StalenessMean /= float64(members)
	b.RewardMean /= float64(members)
	return b
}

func (c *Core) setAdvantages(members []subjects.Member) {
	rewards, out := make([]float64, len(members)), make([]float64, len(members))
	for i := range members {
		rewards[i] = members[i].Reward
	}
	c.cfg.advantages(out, rewards)
	for i := range members {
		members[i].Advantage = out[i]
	}
}

func (c *Core) applyBatch(b *subjects.Batch) error {
	batched := make(map[subjects.GroupID]bool, len(b.Groups))
	for i := range b.Groups {
		batched[b.Groups[i].Group] = true
	}
	n, left := len(c.kept), c.kept[:0]
	for i, g := range c.kept {
		if len(batched) == 0 { // mostly they are the first ones, of thousands perhaps
			left = append(left, c.kept[i:]...)
			break
		}
		if !batched[g.id] {
			left = append(left, g)
			continue
		}
		delete(batched, g.id)
		c.stats.Trained += uint64(len(g.members))
		c.leave(g)
	}
	clear(c.kept[len(left):])
	c.kept = left
	if n-len(c.kept) != len(b.Groups) || b.Step != c.lastStep+1 {
		return fmt.Errorf("batch %d after %d: of its %d groups, %d were kept", b.Step, c.lastStep, len(b.Groups), n-len(c.kept))
	}
	c.lastStep, c.spent = b.Step, 0
	return nil
}
