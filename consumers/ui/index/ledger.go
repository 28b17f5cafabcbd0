package index

import (
	"math"

	"github.com/headrace/headrace/subjects"
)

// mostIssued bounds the groups that one decision opens.
const mostIssued = 1 << 16

// Entry folds an entry of the ledger in, in the order of the log.
func (x *Index) Entry(seq uint64, e *subjects.Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ledger = seq
	for i := range e.Issued {
		x.issue(&e.Issued[i], e.At)
	}
	for i := range e.Verdicts {
		x.verdict(seq, &e.Verdicts[i])
	}
	for i := range e.Batches {
		for k := range e.Batches[i].Groups {
			x.batch(e.Batches[i].Step, &e.Batches[i].Groups[k])
		}
	}
	for i := range e.Evals {
		x.evaluated(clamp(int64(e.Evals[i].Round)))
	}
	if len(x.groups) > mostGroups {
		x.forget()
	}
}

func (x *Index) issue(i *subjects.Issue, at int64) {
	for k := range min(max(i.Count, 0), mostIssued) {
		id := subjects.TrainGroup(i.First + uint64(k))
		if i.Kind == subjects.Eval {
			id = subjects.EvalGroup(i.Round, k)
		}
		g := &x.groups[x.find(string(id))]
		if g.opened = at; i.Kind == subjects.Eval {
			g.eval, g.round = true, clamp(int64(i.Round))
		}
	}
}

// verdict closes a group; its last one counts.
func (x *Index) verdict(seq uint64, v *subjects.Verdict) {
	i := x.find(string(v.Group))
	g := &x.groups[i]
	g.outcome, g.opened, g.closed = number(outcomes, string(v.Outcome)), v.Opened, v.Closed
	g.ledger, g.unused = uint32(min(seq, math.MaxUint32)), uint32(min(max(v.Unused, 0), math.MaxUint32))
	x.each(g, func(_ uint32, r *row) { r.flags &^= isMember })
	for k := range v.Members {
		if r := x.member(i, &v.Members[k]); r != nil {
			r.flags |= isMember
		}
	}
	x.sum(g)
}

// member is the row of what the ledger names, made if its header has not been seen.
func (x *Index) member(i uint32, m *subjects.Member) (found *row) {
	if m.Seq > math.MaxUint32 || m.Index < 0 || m.Index > math.MaxUint16 {
		return nil
	}
	g := &x.groups[i]
	x.each(g, func(_ uint32, r *row) {
		if r.seq == uint32(m.Seq) && r.index == uint16(m.Index) && !r.is(isDead) {
			found = r
		}
	})
	if found != nil || g.arrived >= longChain {
		return found
	}
	x.link(row{seq: uint32(m.Seq), index: uint16(m.Index), group: i, slot: uint16(min(max(m.Slot, 0), math.MaxUint16)), attempt: uint16(min(max(m.Attempt, 0), math.MaxUint16)),
		status: number(statuses, m.Status), reward: float32(m.Reward), tokens: uint32(min(max(m.Tokens, 0), math.MaxUint32)),
		minVersion: clamp(int64(m.MinVersion)), maxVersion: clamp(int64(m.MaxVersion)), flags: ledgerRow})
	x.orphans++
	return x.rows.at(g.last - 1)
}

func (x *Index) batch(step subjects.Step, b *subjects.BatchGroup) {
	i := x.find(string(b.Group))
	g := &x.groups[i]
	g.step, g.environment = clamp(int64(step)), x.environments.number(b.Environment)
	for k := range b.Members {
		m := &b.Members[k]
		r := x.member(i, m)
		if r == nil {
			continue
		}
		r.advantage, r.flags = float32(m.Advantage), r.flags|isMember|hasWeight
		if m.Masked {
			r.flags |= isMasked
		}
	}
	x.sum(g)
}

func (x *Index) evaluated(round int32) {
	x.rounds[round] = true
	for i := range x.groups {
		if g := &x.groups[i]; g.eval && g.round == round {
			g.outcome = evaluated
		}
	}
}
