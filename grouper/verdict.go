package grouper

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// closeGroups gives a verdict on every group that is full, hopeless or due.
func (c *Core) closeGroups(e *subjects.Entry, now int64) {
	c.checkTimers(now)
	groups := make([]*group, 0, len(c.ready))
	for g := range c.ready {
		if !c.full(g) || c.looked(g) { // the others wait for the inspector: thousands, if it is behind
			groups = append(groups, g)
		}
	}
	slices.SortFunc(groups, byOrder)
	for members := 0; len(groups) > 0 && members <= maxMembers; groups = groups[1:] {
		g := groups[0]
		outcome, ok := c.judge(g, now)
		if !ok {
			continue
		}
		e.Verdicts = append(e.Verdicts, c.verdict(g, outcome, now))
		members += len(e.Verdicts[len(e.Verdicts)-1].Members)
		_ = c.applyVerdict(&e.Verdicts[len(e.Verdicts)-1]) // of a group that is open
	}
}

// checkTimers looks at every clock, if one may have run out.
func (c *Core) checkTimers(now int64) {
	if now < c.nextTimer {
		return
	}
	c.nextTimer = math.MaxInt64
	deadline := int64(c.cfg.GroupDeadline)
	for _, g := range c.open {
		if g.clock == 0 {
			continue
		}
		if c.timeOut(g, now); g.due(now, deadline) || c.hopeless(g, now) {
			c.ready[g] = struct{}{}
		}
		if !g.due(now, deadline) {
			c.nextTimer = min(c.nextTimer, g.clock+deadline)
		}
	}
}

// timeOut ends the attempts of a group that nothing came of in time and that
// may be made again.
func (c *Core) timeOut(g *group, now int64) {
	if c.cfg.SlotTimeout == 0 {
		return
	}
	for i := range g.slots {
		s := &g.slots[i]
		if s.filled || s.state != waiting {
			continue
		}
		if end := c.slotEnd(g, s); now < end {
			c.nextTimer = min(c.nextTimer, end)
		} else if int(s.attempt) < *c.cfg.SlotRetries {
			c.lose(g, subjects.Slot(i), subjects.Attempt(s.attempt), causeTimeout)
		}
	}
}

// judge says how a group closes, or that it does not yet.
func (c *Core) judge(g *group, now int64) (subjects.Outcome, bool) {
	due, hopeless := g.due(now, int64(c.cfg.GroupDeadline)), c.hopeless(g, now)
	switch {
	case !c.full(g) && !due && !hopeless:
		delete(c.ready, g) // a rejection opened it again
		return "", false
	case len(g.members) < c.cfg.MinGroupSize && hopeless:
		return subjects.TooFew, true
	case len(g.members) < c.cfg.MinGroupSize:
		return subjects.Expired, true
	case !c.looked(g):
		return "", false
	}
	members := c.members(g)
	switch {
	case c.cfg.ZeroVariance != PolicyKeep && c.pointless(members):
		return subjects.ZeroVariance, true
	case c.cfg.Stale == PolicyDrop && c.tooStale(&group{members: members}, c.lastStep+1):
		return subjects.Stale, true
	case !c.full(g):
		return subjects.Partial, true
	}
	return subjects.Kept, true
}

// looked reports whether the inspector has read all members.
func (c *Core) looked(g *group) bool { return !*c.cfg.Inspect || c.newest(g) <= c.inspected }

// newest is the last ROLLOUTS sequence of the members a group would close with.
func (c *Core) newest(g *group) (seq uint64) {
	for _, m := range g.members[:min(len(g.members), c.cfg.GroupSize)] {
		seq = max(seq, m.Seq)
	}
	return seq
}

// members are the trajectories a group closes with: the first to come, by slot.
func (c *Core) members(g *group) []subjects.Member {
	out := slices.Clone(g.members[:min(len(g.members), c.cfg.GroupSize)])
	slices.SortFunc(out, func(a, b subjects.Member) int { return cmp.Compare(a.Slot, b.Slot) })
	for i := range out {
		out[i].Masked = c.cfg.Overlong == PolicyMask && out[i].Status == subjects.Overlong
	}
	return out
}

// pointless reports whether a group teaches nothing: its rewards are equal, or
// none of it is trained on.
func (c *Core) pointless(members []subjects.Member) bool {
	rewards, trained := make([]float64, len(members)), false
	for i, m := range members {
		rewards[i] = m.Reward
		trained = trained || !m.Masked
	}
	return !trained || equalRewards(rewards, *c.cfg.ZeroVarianceTolerance)
}

func (c *Core) tooStale(g *group, step subjects.Step) bool {
	return staleness(step, g.oldest()) > int64(*c.cfg.MaxStaleness)
}

func (c *Core) verdict(g *group, o subjects.Outcome, now int64) subjects.Verdict {
	v := subjects.Verdict{Group: g.id, Outcome: o, Members: c.members(g), Opened: g.opened, Closed: now}
	v.Unused = g.unused + len(g.members) - len(v.Members)
	return v
}

// applyVerdict closes a group, or takes one that was kept out again.
func (c *Core) applyVerdict(v *subjects.Verdict) error {
	g := c.open[v.Group]
	if g == nil {
		if i := c.keptAt(v.Group); i >= 0 {
			c.revise(i, v)
			return nil
		}
		if !c.external() {
			return fmt.Errorf("verdict %s on group %s, which is neither open nor kept", v.Outcome, v.Group)
		}
		g = c.opened(v.Group, v.Opened) // its trajectories are purged
	}
	delete(c.open, g.id)
	delete(c.ready, g)
	delete(c.failed, g)
	c.stats.Produced += uint64(max(0, v.Unused+len(v.Members)-g.unused-len(g.members))) // purged before a replay
	c.settle(v.Unused - g.unused)
	c.stats.Outcomes[v.Outcome]++
	if c.external() {
		c.closed.add(hashID(g.id))
	}
	g.slots, g.members, g.spares, g.unused = nil, v.Members, nil, v.Unused
	if !v.Outcome.Trained() {
		c.discard(g, v.Outcome)
		return nil
	}
	at, _ := slices.BinarySearchFunc(c.kept, g, byOrder)
	c.kept = slices.Insert(c.kept, at, g)
	return nil
}

// settle counts what a group had beyond its members. In a replay it can be
// less than nothing: of a group that closed before its inspection, some was
// rejected later, and is known to be.
func (c *Core) settle(surplus int) {
	c.stats.drop(ReasonSurplus, surplus)
	if surplus < 0 {
		c.stats.Dropped[ReasonRejected] -= uint64(-surplus)
	}
}

// discard drops a closed group.
func (c *Core) discard(g *group, o subjects.Outcome) {
	c.stats.drop(Reason(o), len(g.members))
	if o == subjects.ZeroVariance && c.cfg.ZeroVariance == PolicyDrop {
		c.spent++
	}
	c.leave(g)
}

// leave forgets a group that was dropped or batched.
func (c *Core) leave(g *group) {
	g.gone, g.members = true, nil
	c.live[g.env]--
}

func (c *Core) keptAt(id subjects.GroupID) int {
	return slices.IndexFunc(c.kept, func(g *group) bool { return g.id == id })
}

// revise drops a group that waited for its batch.
func (c *Core) revise(i int, v *subjects.Verdict) {
	g := c.kept[i]
	c.kept = slices.Delete(c.kept, i, i+1)
	c.stats.Outcomes[v.Outcome]++
	c.discard(g, v.Outcome)
}

// dropKept revises the verdict on a kept group.
func (c *Core) dropKept(e *subjects.Entry, g *group, o subjects.Outcome, now int64) {
	e.Verdicts = append(e.Verdicts, subjects.Verdict{Group: g.id, Outcome: o, Members: g.members, Unused: g.unused, Opened: g.opened, Closed: now})
	c.revise(c.keptAt(g.id), &e.Verdicts[len(e.Verdicts)-1])
}
