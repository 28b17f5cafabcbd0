package grouper

import "github.com/headrace/headrace/subjects"

// credit is the number of groups that may be open or kept: the batches that
// may yet be cut for a trainer at this step, times their size.
//
//	(committed + 1 + max_staleness - batches cut) x groups_per_batch
func (c *Core) credit(committed subjects.Step) int {
	steps := int64(committed) + 1 + int64(*c.cfg.MaxStaleness) - int64(c.lastStep)
	if c.cfg.Steps > 0 {
		steps = min(steps, c.cfg.Steps-int64(c.lastStep))
	}
	return int(max(steps, 0)) * c.cfg.batchGroups()
}

// openGroups opens as many groups as admission allows.
func (c *Core) openGroups(e *subjects.Entry, now int64) {
	if c.external() {
		return
	}
	step := c.admitted(now)
	credit := c.credit(step)
	for c.room(credit) {
		env, ok := c.choose(credit)
		if !ok {
			return
		}
		n := c.next[env]*uint64(len(c.next)) + uint64(env)
		if last := len(e.Issued) - 1; last >= 0 && e.Issued[last].Kind == subjects.Train && e.Issued[last].First+uint64(e.Issued[last].Count) == n {
			e.Issued[last].Count++
		} else {
			e.Issued = append(e.Issued, subjects.Issue{Kind: subjects.Train, First: n, Count: 1, Step: step})
		}
		c.openTrain(n, e.At)
	}
}

// room reports whether one more group may be opened. A batch that took more of
// an environment than its minimum may leave too few for the next: those are
// opened beyond the credit, at most a batch of them.
func (c *Core) room(credit int) bool {
	live := len(c.open) + len(c.kept)
	_, short := c.short()
	switch {
	case credit == 0, c.cfg.MaxOpenGroups > 0 && len(c.open) >= c.cfg.MaxOpenGroups:
		return false
	case short:
		return true
	case live >= credit:
		return false
	}
	// A dropped group's place is only filled if the next batch needs it.
	return live+c.spent < credit || live < c.cfg.batchGroups()
}

// short is an environment of which less is live than the next batch needs.
func (c *Core) short() (env int, short bool) {
	for env, n := range c.live {
		if n < c.need[env] && !c.exhausted(env) {
			return env, true
		}
	}
	return 0, false
}

// choose is the environment of the next group: one that the batches ahead would run
// short of, if the room that is left is needed for those; else the one most behind
// its weight.
func (c *Core) choose(credit int) (env int, ok bool) {
	batches, free := credit/c.cfg.batchGroups(), credit-len(c.open)-len(c.kept)
	if env, short := c.short(); short && free <= 0 {
		return env, true
	}
	missing, worst, shortest := 0, 0, -1
	for env := range c.next {
		if n := c.need[env]*batches - c.live[env]; n > 0 && !c.exhausted(env) {
			missing += n
			if n > worst {
				worst, shortest = n, env
			}
		}
	}
	if shortest >= 0 && free <= missing {
		return shortest, true
	}
	best := 0.0
	for i := range c.next {
		if c.exhausted(i) {
			continue
		}
		if due := float64(c.next[i]+1) / c.weight(i); !ok || due < best {
			env, best, ok = i, due, true
		}
	}
	return env, ok
}

func (c *Core) weight(env int) float64 {
	if len(c.cfg.Environments) == 0 {
		return 1
	}
	return c.cfg.Environments[env].Weight
}

func (c *Core) applyIssue(i *subjects.Issue, at int64) {
	if i.Kind == subjects.Eval {
		c.openRound(i.Round, i.Count, at)
		return
	}
	for n := range i.Count {
		c.openTrain(i.First+uint64(n), at)
	}
}

// openTrain opens the group with an ordinal: of environment ordinal mod
// environments, whose task is the quotient.
func (c *Core) openTrain(ordinal uint64, at int64) {
	g := c.opened(subjects.TrainGroup(ordinal), at)
	envs := uint64(len(c.next))
	g.ordinal, g.env = ordinal, int(ordinal%envs)
	c.live[0]--
	c.live[g.env]++
	c.next[g.env] = max(c.next[g.env], ordinal/envs+1)
	g.slots = make([]slot, c.cfg.Slots())
	for i := range g.slots {
		g.slots[i].issued = at
	}
	g.pending = len(g.slots)
	c.starting = append(c.starting, &g.lifetime)
}

// opened adds an open group.
func (c *Core) opened(id subjects.GroupID, at int64) *group {
	c.order++
	g := &group{lifetime: lifetime{order: c.order, opened: at}, id: id}
	c.open[id] = g
	c.live[0]++
	return g
}
