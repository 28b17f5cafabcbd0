package grouper

import (
	"slices"

	"github.com/headrace/headrace/subjects"
)

// Play is one episode to be handed out: everything of its task that the
// grouper decides.
type Play struct {
	Kind    subjects.Kind
	Group   subjects.GroupID
	Slot    subjects.Slot
	Attempt subjects.Attempt
	Round   subjects.Step
	// Env is the environment's place in the mix, Task the number of the task among
	// that environment's training or held-out ones.
	Env  int
	Task uint64
	// Greedy: to be played at temperature 0.
	Greedy bool
	// Issued is when it was decided.
	Issued int64
}

// Plays are the episodes that an entry hands out, whose decisions are applied.
func (c *Core) Plays(e *subjects.Entry) []Play {
	var out []Play
	for _, i := range e.Issued {
		if i.Kind == subjects.Eval {
			out = append(out, c.roundPlays(i.Round)...)
			continue
		}
		for n := range i.Count {
			if g := c.open[subjects.TrainGroup(i.First+uint64(n))]; g != nil {
				out = append(out, c.groupPlays(g)...)
			}
		}
	}
	for _, r := range e.Retries {
		out = append(out, c.retried(r)...)
	}
	return out
}

// Outstanding are all episodes that are handed out and have not come, in the
// order they were: what the queue should hold, beside what is late.
func (c *Core) Outstanding() []Play {
	type item struct {
		order uint64
		plays []Play
	}
	var items []item
	for _, g := range c.open {
		items = append(items, item{g.order, c.groupPlays(g)})
	}
	for _, r := range c.rounds {
		items = append(items, item{r.order, c.roundPlays(r.step)})
	}
	slices.SortFunc(items, func(a, b item) int { return int(a.order) - int(b.order) })
	var out []Play
	for _, i := range items {
		out = append(out, i.plays...)
	}
	return out
}

func (c *Core) groupPlays(g *group) (out []Play) {
	for i := range g.slots {
		if s := &g.slots[i]; s.state == waiting && !s.filled {
			out = append(out, Play{Kind: subjects.Train, Group: g.id, Slot: subjects.Slot(i), Attempt: subjects.Attempt(s.attempt),
				Env: g.env, Task: g.ordinal / uint64(len(c.next)), Issued: s.issued})
		}
	}
	return out
}

func (c *Core) roundPlays(step subjects.Step) (out []Play) {
	per, samples := c.cfg.Evaluation.Episodes(), c.cfg.Evaluation.Samples
	for _, r := range c.rounds {
		for i := range r.episodes {
			ep := &r.episodes[i]
			if r.step != step || ep.state != waiting || ep.filled {
				continue
			}
			task := i / per
			out = append(out, Play{Kind: subjects.Eval, Group: subjects.EvalGroup(step, task), Slot: subjects.Slot(i % per),
				Attempt: subjects.Attempt(ep.slot.attempt), Round: step, Env: task % len(c.next), Task: uint64(task / len(c.next)),
				Greedy: i%per >= samples, Issued: ep.issued})
		}
	}
	return out
}

func (c *Core) retried(r subjects.Retry) (out []Play) {
	var all []Play
	if g := c.open[r.Group]; g != nil && r.Kind == subjects.Train {
		all = c.groupPlays(g)
	}
	for _, round := range c.rounds {
		if r.Kind == subjects.Eval {
			all = append(all, c.roundPlays(round.step)...)
		}
	}
	for _, p := range all {
		if p.Group == r.Group && p.Slot == r.Slot && p.Attempt == r.Attempt {
			out = append(out, p)
		}
	}
	return out
}
