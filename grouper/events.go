package grouper

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/subjects"
)

// Rollout notes one trajectory of a bundle: its address, the bundle's time in
// the log and its index entry, of which nothing is kept. Call [Core.Folded]
// after the bundle's last.
func (c *Core) Rollout(a subjects.Address, at int64, e *subjects.IndexEntry) {
	c.unsaved += int64(e.Length)
	at = c.moment(at)
	if e.Kind == subjects.Eval {
		c.evalArrival(a, at, e)
		return
	}
	c.stats.Produced++
	g := c.find(at, e)
	if g == nil {
		return
	}
	c.needs(&g.lifetime, cmp.Or(c.begins, a.Seq))
	if g.name == "" {
		g.name = c.nameOf(g, e)
	}
	c.start(g.order, at)
	if why := c.fill(g, a, e); why != reasonNone {
		g.unused++
		c.stats.drop(why, 1)
	}
	c.check(g)
}

// nameOf is the name of a group's environment: the mix says it; where there is
// none, its first trajectory.
func (c *Core) nameOf(g *group, e *subjects.IndexEntry) string {
	if !c.external() && len(c.cfg.Environments) > 0 {
		return c.cfg.Environments[g.env].Name
	}
	return c.intern(e.Environment)
}

// Folded notes that ROLLOUTS is folded up to a sequence.
func (c *Core) Folded(seq uint64) { c.rollouts = max(c.rollouts, seq) }

// Inspected notes that the inspector has read ROLLOUTS up to a sequence, and
// that all its rejections up to there were noted.
func (c *Core) Inspected(seq uint64) { c.inspected = max(c.inspected, seq) }

// find is the open group of a trajectory; nil if it cannot be used, counted.
func (c *Core) find(at int64, e *subjects.IndexEntry) *group {
	if g := c.open[e.Group]; g != nil {
		return g
	}
	switch {
	case c.ended != "":
		c.stats.drop(ReasonLate, 1)
	case !c.external():
		c.stats.drop(c.unopened(e.Group), 1)
	case c.closed.has(e.Group):
		c.stats.drop(ReasonLate, 1)
	default:
		g := c.opened(subjects.GroupID(strings.Clone(string(e.Group))), at)
		g.clock = at
		c.timer(at)
		return g
	}
	return nil
}

// unopened tells a closed group from one that never was.
func (c *Core) unopened(id subjects.GroupID) Reason {
	if n, err := strconv.ParseUint(strings.TrimPrefix(string(id), "t"), 10, 64); err == nil && id[0] == 't' {
		if envs := uint64(len(c.next)); n/envs < c.next[n%envs] {
			return ReasonLate
		}
	}
	return ReasonUnknown
}

// fill puts a trajectory into its slot, or says why it cannot. An attempt counts
// once, with its first arrival, whatever comes of that: who holds a lease can make
// the group keep no more than one trajectory of it, and have no more than one
// inspected. What comes of a set of trajectories and rejections does not depend on
// when the rejections came.
func (c *Core) fill(g *group, a subjects.Address, e *subjects.IndexEntry) Reason {
	switch {
	case !c.external() && int(e.Slot) >= len(g.slots):
		return ReasonUnknown
	case !g.comes(e.Slot, e.Attempt):
		return ReasonDuplicate
	case !e.Status.Trained():
		c.lose(g, e.Slot, e.Attempt, causeOf(e.Status))
		return reasonOf(e.Status)
	case e.Status == subjects.Overlong && c.cfg.Overlong == PolicyDrop:
		c.giveUp(g, e.Slot, e.Attempt)
		return ReasonOverlong
	case c.isRejected(a):
		c.lose(g, e.Slot, e.Attempt, causeRejected)
		return ReasonRejected
	case g.has(e.Slot):
		g.spares = append(g.spares, member(a, e))
		return ReasonDuplicate
	}
	if g.members == nil {
		g.members = make([]subjects.Member, 0, c.cfg.Slots())
	}
	g.add(member(a, e))
	return reasonNone
}

// statuses without the header they were cut from.
var statuses = map[subjects.Status]subjects.Status{
	subjects.Succeeded: subjects.Succeeded, subjects.Truncated: subjects.Truncated, subjects.Overlong: subjects.Overlong,
}

func member(a subjects.Address, e *subjects.IndexEntry) subjects.Member {
	return subjects.Member{
		Slot: e.Slot, Attempt: e.Attempt, Seq: a.Seq, Index: a.Index, Offset: e.Offset, Length: e.Length,
		Checksum: e.Checksum, Status: statuses[e.Status], Reward: e.Reward, Segments: e.Segments,
		Tokens: e.Tokens, Longest: e.Longest, MinVersion: e.MinVersion, MaxVersion: e.MaxVersion,
	}
}

// lose notes that a slot's attempt came to nothing.
func (c *Core) lose(g *group, s subjects.Slot, a subjects.Attempt, why cause) {
	if g.slots != nil && g.slots[s].lose(a, why, *c.cfg.SlotRetries) {
		g.recount()
		c.failed[g] = struct{}{}
	}
}

// giveUp leaves a slot empty, without a retry.
func (c *Core) giveUp(g *group, s subjects.Slot, a subjects.Attempt) {
	if g.slots == nil || int(a) < int(g.slots[s].attempt) {
		return
	}
	g.slots[s].state = dead
	g.recount()
}

// check notes whether the group may be ready to close.
func (c *Core) check(g *group) {
	if c.full(g) || c.hopeless(g, 0) || c.lastTry(g) {
		c.ready[g] = struct{}{}
	}
}

// lastTry reports whether a slot of the group has no attempt left: its clock,
// which is not looked at here, may say that there is nothing to wait for.
func (c *Core) lastTry(g *group) bool {
	for i := range g.slots {
		if s := &g.slots[i]; int(s.attempt) >= *c.cfg.SlotRetries && s.pending() {
			return true
		}
	}
	return false
}

// full reports whether the group has all that it closes with.
func (c *Core) full(g *group) bool { return len(g.members) >= c.cfg.GroupSize }

// hopeless reports whether waiting cannot make the group larger, or large enough.
func (c *Core) hopeless(g *group, now int64) bool {
	if g.slots == nil {
		return false
	}
	pending := g.pending - c.timedOut(g, now)
	return pending == 0 || len(g.members)+pending < c.cfg.MinGroupSize
}

// timedOut counts the slots whose last attempt ran out of time.
func (c *Core) timedOut(g *group, now int64) (n int) {
	if c.cfg.SlotTimeout == 0 || g.clock == 0 {
		return 0
	}
	for i := range g.slots {
		s := &g.slots[i]
		if s.pending() && s.state == waiting && int(s.attempt) >= *c.cfg.SlotRetries && now >= c.slotEnd(g, s) {
			n++
		}
	}
	return n
}

func (c *Core) slotEnd(g *group, s *slot) int64 {
	return max(s.issued, g.clock) + int64(c.cfg.SlotTimeout)
}

// start starts the clocks of all that was issued up to order: the queue of
// tasks is first in, first out.
func (c *Core) start(order uint64, at int64) {
	for len(c.starting) > 0 && c.starting[0].order <= order {
		c.starting[0].clock = at
		c.starting = c.starting[1:]
		c.timer(at)
	}
}

// timer notes that something may be due counted from a time.
func (c *Core) timer(from int64) {
	wait := c.cfg.GroupDeadline
	if c.cfg.SlotTimeout > 0 {
		wait = c.cfg.SlotTimeout // the shorter
	}
	c.nextTimer = min(c.nextTimer, from+int64(wait))
}

// watch holds the watermark at a group or round until it is gone.
func (c *Core) watch(l *lifetime) {
	if len(c.watched) > 1024+2*(len(c.open)+len(c.kept)+len(c.rounds)) {
		c.watched = slices.DeleteFunc(c.watched, func(l *lifetime) bool { return l.gone })
	}
	at, _ := slices.BinarySearchFunc(c.watched, l.first, func(w *lifetime, first uint64) int { // at the end, but for parts
		if w.first <= first {
			return -1
		}
		return 1
	})
	c.watched = slices.Insert(c.watched, at, l)
}

// low is the first ROLLOUTS sequence that a group or round still needs.
func (c *Core) low() uint64 {
	for len(c.watched) > 0 && c.watched[0].gone {
		c.watched = c.watched[1:]
	}
	low := c.rollouts + 1
	if len(c.watched) > 0 {
		low = c.watched[0].first
	}
	if len(c.early) > 0 {
		low = min(low, c.early[0].Seq)
	}
	return low
}

// Whole is the place in its bundle of a rejection that is of the whole message.
const Whole = -1

func (c *Core) isRejected(a subjects.Address) bool {
	if len(c.rejected) == 0 {
		return false
	}
	_, one := c.rejected[a]
	_, all := c.rejected[subjects.Address{Seq: a.Seq, Index: Whole}]
	return one || all
}

// rejectedLeast is how many rejections are kept before those below the
// watermark are looked for.
const rejectedLeast = 4096

// Reject notes that the inspector found a trajectory malformed, or all of a
// bundle (index [Whole]). It may come before the trajectory itself. What is kept
// of rejections is bounded by the leases since the watermark: the inspector writes
// one for each, at most.
func (c *Core) Reject(a subjects.Address) {
	if len(c.rejected) >= c.rejectedMost {
		low := c.low()
		maps.DeleteFunc(c.rejected, func(r subjects.Address, _ struct{}) bool { return r.Seq < low })
		c.rejectedMost = max(rejectedLeast, 2*len(c.rejected))
	}
	c.rejected[a] = struct{}{}
	for _, g := range c.open {
		c.rejectMembers(g, a)
	}
	for _, r := range c.rounds {
		c.rejectEpisodes(r, a)
	}
}

func hits(at, rejected subjects.Address) bool {
	return at.Seq == rejected.Seq && (at.Index == rejected.Index || rejected.Index == Whole)
}

func (c *Core) rejectMembers(g *group, a subjects.Address) {
	n := len(g.spares)
	g.spares = slices.DeleteFunc(g.spares, func(m subjects.Member) bool {
		hit := hits(address(&m), a)
		if hit {
			c.lose(g, m.Slot, m.Attempt, causeRejected)
		}
		return hit
	})
	c.recount(ReasonDuplicate, ReasonRejected, n-len(g.spares))
	for i := len(g.members) - 1; i >= 0; i-- {
		m := g.members[i]
		if !hits(address(&m), a) {
			continue
		}
		c.stats.drop(ReasonRejected, 1)
		if g.take(i) { // a spare, counted as a duplicate before
			c.stats.Dropped[ReasonDuplicate]--
		} else {
			g.unused++
		}
		c.lose(g, m.Slot, m.Attempt, causeRejected)
		c.failed[g] = struct{}{}
		c.check(g)
	}
}

// recount moves trajectories from one reason to another.
func (c *Core) recount(from, to Reason, n int) {
	if n > 0 {
		c.stats.Dropped[from] -= uint64(n)
		c.stats.drop(to, n)
	}
}
