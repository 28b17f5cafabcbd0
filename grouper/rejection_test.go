package grouper

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/subjects"
)

// flood is a set of trajectories, as somebody who holds leases may write them: any
// attempt any number of times, of any status; and a set of rejections of theirs.
type flood struct {
	arrivals   []subjects.IndexEntry // one a message
	rejections []subjects.Address
}

func randomFlood(pick chooser, groups, slots int) flood {
	var f flood
	for seq := uint64(1); seq <= uint64(10+pick(60)); seq++ {
		kind, group, round := subjects.Train, subjects.TrainGroup(uint64(pick(groups))), subjects.Step(0)
		if pick(4) == 0 {
			kind, group = subjects.Eval, subjects.EvalGroup(0, pick(2))
		}
		f.arrivals = append(f.arrivals, subjects.IndexEntry{Kind: kind, Group: group, Round: round, Slot: subjects.Slot(pick(slots + 1)), Attempt: subjects.Attempt(pick(3)),
			Status: subjects.Status(pick.of("succeeded", "succeeded", "overlong", "failed")), Environment: "lake", Segments: 1, Tokens: 5, Longest: 5, Reward: float64(seq)})
		if pick(3) == 0 {
			f.rejections = append(f.rejections, subjects.Address{Seq: seq, Index: pick(2) - 1})
		}
	}
	return f
}

// hear folds the flood; each rejection is heard before the message that when
// says, or after all of them.
func (f flood) hear(t testing.TB, cfg Config, when func(i int) uint64) *world {
	w := newWorld(t, cfg, Supply{Train: []uint64{0}})
	w.core.Decide(w.now) // opens the groups; nothing is decided from here on
	for i := range f.arrivals {
		for r, a := range f.rejections {
			if when(r) == uint64(i+1) {
				w.reject(a)
			}
		}
		w.publish(f.arrivals[i])
	}
	for r, a := range f.rejections {
		if when(r) > uint64(len(f.arrivals)) {
			w.reject(a)
		}
	}
	return w
}

// TestCore_WhatComesDoesNotDependOnWhenRejectionsAreHeard hears the same
// rejections of the same trajectories at different times: before all, after all,
// in between, in any order.
func TestCore_WhatComesDoesNotDependOnWhenRejectionsAreHeard(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		pick := chooser(func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "") })
		cfg := Config{GroupSize: 3, GroupsPerBatch: 3, MaxStaleness: new(0), SlotRetries: new(pick(3)), Overlong: pick.of(PolicyKeep, PolicyDrop),
			Evaluation: Evaluation{Every: 1, Tasks: 2}}
		f := randomFlood(pick, 3, 3)
		first := dump(t, f.hear(t, cfg, func(int) uint64 { return 1 }).core.Snapshot())
		order := rapid.SliceOfN(rapid.Uint64Range(1, uint64(len(f.arrivals)+1)), len(f.rejections), len(f.rejections)).Draw(r, "heard at")
		for name, when := range map[string]func(int) uint64{
			"after all": func(int) uint64 { return 1 << 40 }, "in between": func(i int) uint64 { return order[i] },
			"at once": func(i int) uint64 { return f.rejections[i].Seq + 1 },
		} {
			w := f.hear(t, cfg, when)
			if again := dump(t, w.core.Snapshot()); again != first {
				r.Fatalf("heard %s: %+v\nbefore all: %s\nso: %s", name, f, first, again)
			}
		}
	})
}

// TestCore_KeepsOneTrajectoryAnAttempt floods a group with copies of what a
// lease is good for: what is kept does not grow with them.
func TestCore_KeepsOneTrajectoryAnAttempt(t *testing.T) {
	w := newWorld(t, Config{GroupSize: 3, GroupsPerBatch: 1, Evaluation: Evaluation{Every: 1, Tasks: 2}}, Supply{Train: []uint64{0}})
	w.core.Decide(w.now)
	best := subjects.IndexEntry{Kind: subjects.Train, Group: "t0", Status: subjects.Succeeded, Environment: "lake", Segments: 1, Tokens: 5, Longest: 5}
	eval := best
	eval.Kind, eval.Group = subjects.Eval, subjects.EvalGroup(0, 0)
	w.publish(best, eval)
	size := len(w.core.Snapshot())
	for n := range 5000 {
		best.Reward, eval.Reward = float64(n), float64(n)
		w.publish(slices.Repeat([]subjects.IndexEntry{best, eval}, 4)...)
		w.reject(subjects.Address{Seq: uint64(len(w.rollouts)), Index: 2})
	}
	g := w.core.open["t0"]
	if len(g.members) != 1 || g.members[0].Reward != 0 || len(g.spares) != 0 || len(w.core.rounds[0].spares) != 0 {
		t.Errorf("members %+v, %d spares, %d of the round", g.members, len(g.spares), len(w.core.rounds[0].spares))
	}
	if grown := len(w.core.Snapshot()) - size; grown > 100 {
		t.Errorf("the state grew by %d bytes", grown)
	}
	if n := w.core.Stats().Dropped[ReasonDuplicate]; n != 20000 {
		t.Errorf("%d duplicates counted", n)
	}
}

func TestArrive_CountsWhatTheGateRefused(t *testing.T) {
	w := newWorld(t, Config{GroupSize: 2}, Supply{Train: []uint64{0}})
	w.core.Decide(w.now)
	a := &subjects.Admission{Refused: 7, Err: subjects.ErrForged}
	if n := w.core.Arrive(1, w.now, a); n != 0 {
		t.Errorf("%d unreadable", n)
	}
	a = &subjects.Admission{Arrivals: []subjects.Arrival{{Err: subjects.ErrIndex}}}
	if n := w.core.Arrive(2, w.now, a); n != 1 {
		t.Errorf("%d unreadable", n)
	}
	if s := w.core.Stats(); s.Produced != 7 || s.Dropped[ReasonForged] != 7 {
		t.Errorf("%+v", s)
	}
	if ro, _ := w.core.Marks(); ro != 2 {
		t.Errorf("folded up to %d", ro)
	}
}
