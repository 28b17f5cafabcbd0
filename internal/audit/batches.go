package audit

import (
	"github.com/headrace/headrace/subjects"
)

// batch checks the batch of a step: the next one, of groups that wait for it, as
// they closed, of trajectories that no other batch has.
func (g *groups) batch(seq uint64, b *subjects.Batch) {
	if want := g.step + 1; b.Step != want && !(g.holes && b.Step > want) {
		kind := Lost
		if b.Step < want {
			kind = Duplicated
		}
		g.add(seq, CheckBatches, kind, "", b.Step, "batch of step %d where step %d is due", b.Step, want)
	}
	g.step = max(g.step, b.Step)
	total := subjects.Batch{}
	for i := range b.Groups {
		g.batchGroup(seq, b, &b.Groups[i])
		for k := range b.Groups[i].Members {
			m := &b.Groups[i].Members[k]
			total.Rows, total.Tokens, total.Longest = total.Rows+m.Segments, total.Tokens+m.Tokens, max(total.Longest, m.Longest)
		}
	}
	if total.Rows != b.Rows || total.Tokens != b.Tokens || total.Longest != b.Longest {
		g.add(seq, CheckBatches, Wrong, "", b.Step, "batch of step %d says %d rows, %d tokens, longest %d; its members have %d, %d, %d",
			b.Step, b.Rows, b.Tokens, b.Longest, total.Rows, total.Tokens, total.Longest)
	}
}

func (g *groups) batchGroup(seq uint64, b *subjects.Batch, bg *subjects.BatchGroup) {
	was, closed := g.of(bg.Group), g.kept[bg.Group]
	switch {
	case was == waiting:
		g.compare(seq, b, bg, closed)
	case was == batched:
		g.add(seq, CheckBatches, Duplicated, bg.Group, b.Step, "group %s is in the batch of step %d and was in one before", bg.Group, b.Step)
	case was == unknown && g.holes:
	default:
		g.add(seq, CheckBatches, Wrong, bg.Group, b.Step, "group %s is in the batch of step %d although it is %s", bg.Group, b.Step, fates[was])
	}
	delete(g.kept, bg.Group)
	g.set(bg.Group, batched)
	g.advantages(seq, b, bg)
	for i := range bg.Members {
		g.report.checked(CheckBatches, 1)
		g.trained++
		g.use(seq, b, bg, &bg.Members[i])
	}
}

// compare wants the members that the group closed with.
func (g *groups) compare(seq uint64, b *subjects.Batch, bg *subjects.BatchGroup, closed []subjects.Member) {
	switch n := len(bg.Members); {
	case equalMembers(closed, bg.Members, false):
	case n < len(closed):
		g.add(seq, CheckBatches, Short, bg.Group, b.Step, "group %s is in the batch of step %d with %d members; it closed with %d", bg.Group, b.Step, n, len(closed))
	default:
		g.add(seq, CheckBatches, Mixed, bg.Group, b.Step, "group %s is in the batch of step %d with other members than it closed with", bg.Group, b.Step)
	}
}

// advantages wants those that the rewards and the recipe give.
func (g *groups) advantages(seq uint64, b *subjects.Batch, bg *subjects.BatchGroup) {
	rewards := make([]float64, len(bg.Members))
	for i := range rewards {
		rewards[i] = bg.Members[i].Reward
	}
	for i, want := range g.cfg.Advantages(rewards) {
		if have := bg.Members[i].Advantage; have != want {
			g.add(seq, CheckBatches, Wrong, bg.Group, b.Step, "step %d: trajectory %s has the advantage %v; its group's rewards give %v",
				b.Step, memberID(bg.Group, &bg.Members[i]), have, want)
			return
		}
	}
}

// use notes that a trajectory is trained on.
func (g *groups) use(seq uint64, b *subjects.Batch, bg *subjects.BatchGroup, m *subjects.Member) {
	it := g.window.find(m.Seq, m.Index)
	if it == nil {
		return // reported with its group's verdict
	}
	id := it.entry.ID()
	switch {
	case it.used:
		g.add(seq, CheckBatches, Duplicated, bg.Group, b.Step, "step %d trains trajectory %s, which an earlier batch has", b.Step, id)
	case it.fault != nil:
		g.report.add(Discrepancy{Check: CheckBodies, Kind: Lost, Text: "step " + stepText(b.Step) + " trains trajectory " + id + ": " + it.fault.Error(),
			Stream: g.stream(subjects.Rollouts), Seq: m.Seq, Group: bg.Group, Step: b.Step, Trajectory: id})
	}
	it.used = true
}
