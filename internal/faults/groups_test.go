package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/subjects"
)

func slotsOf(v subjects.Verdict) (out []int) {
	for _, m := range v.Members {
		out = append(out, int(m.Slot))
	}
	return out
}

// A group larger than the others fits no batch that must come out even: it
// stood in the way of forty that did.
func TestFault_F2_AGroupOfAnOddSizeHoldsNobodyUp(t *testing.T) {
	p := live(t, external())
	pub := p.publisher("p1")
	p.publish(pub, "odd", 0, 1, 2, 3, 4, 5)
	p.publish(pub, "short", 0, 1, 2)
	for n := range 8 {
		p.publish(pub, subjects.GroupID(fmt.Sprint("even", n)), 0, 1, 2, 3)
	}
	c := p.whole()
	for step := range subjects.Step(4) {
		b, groups := p.train(c)
		if b.Step != step+1 || len(groups) != 2 || b.Rows != 8 || slices.Contains(groups, "short") {
			t.Fatalf("step %d has %v in %d rows", b.Step, groups, b.Rows)
		}
	}
	if v := p.awaitVerdict("odd"); !slices.Equal(slotsOf(v), []int{0, 1, 2, 3}) {
		t.Errorf("odd closed as %+v, want its first four", v)
	}
}

// A client that retries, or a person who does, an hour later: far beyond what
// the bus remembers of message ids.
func TestFault_F3_TheSameGroupPublishedTwiceIsTrainedOnce(t *testing.T) {
	later(t, external(), func(p *pipeline) {
		pub := p.publisher("p1")
		p.publish(pub, "twice", 0, 1, 2, 3)
		p.pass(time.Hour)
		restarted := p.group() // and a grouper that has only the log to remember by
		p.publish(pub, "twice", 0, 1, 2, 3)
		for slot := range 4 {
			p.again("p2", slot+1, rollout("twice", slot))
		}
		p.publish(pub, "other", 0, 1, 2, 3)
		p.pass(time.Hour)
		restarted()
		if got := p.batches(); len(got) != 1 || !slices.Equal(got[0], []subjects.GroupID{"twice", "other"}) {
			p.Errorf("batches %v, want one of both groups", got)
		}
		if v := p.verdicts("twice"); len(v) != 1 {
			p.Errorf("%d verdicts on the group", len(v))
		}
	})
}

// Complete and incomplete prompts next to each other: counting samples alone
// fills the gap of one prompt with a sample of the next.
func TestFault_F17_AMissingSampleMixesNoGroups(t *testing.T) {
	later(t, external(), func(p *pipeline) {
		pub := p.publisher("p1")
		p.publish(pub, "a", 1, 2, 3)
		p.publish(pub, "b", 0, 1, 2, 3)
		p.pass(time.Second)
		if v := p.verdicts("b"); len(v) != 1 || v[0].Outcome != subjects.Kept || !slices.Equal(slotsOf(v[0]), []int{0, 1, 2, 3}) {
			p.Errorf("b closed as %+v", v)
		}
		if v := p.verdicts("a"); v != nil {
			p.Errorf("a, of which a sample is missing, closed as %+v", v)
		}
		p.publish(pub, "a", 0)
		p.pass(time.Second)
		for _, e := range p.entries() {
			for _, b := range e.Batches {
				for _, g := range b.Groups {
					for _, m := range g.Members {
						if m.Seq <= 3 != (g.Group == "a" && m.Slot > 0) {
							p.Errorf("message %d is in group %s", m.Seq, g.Group)
						}
					}
				}
			}
		}
		if got := p.batches(); len(got) != 1 || len(got[0]) != 2 {
			p.Errorf("batches %v", got)
		}
	})
}

func TestFault_F18_ARedeliveredSampleDoesNotCompleteItsGroup(t *testing.T) {
	later(t, external(), func(p *pipeline) {
		p.publish(p.publisher("p1"), "a", 0, 1, 2)
		for n := range 3 {
			t := rollout("a", 0)
			t.Attempt = subjects.Attempt(n / 2) // the last one was handed out again although the first had come
			p.again("p2", n+1, t)
		}
		p.pass(30 * time.Second)
		if v := p.verdicts("a"); v != nil {
			p.Fatalf("closed with three of four slots: %+v", v)
		}
		p.publish(p.publisher("p3"), "a", 3)
		p.pass(time.Second)
		if v := p.verdicts("a"); len(v) != 1 || !slices.Equal(slotsOf(v[0]), []int{0, 1, 2, 3}) || v[0].Unused != 3 {
			p.Errorf("closed as %+v, want each slot once and three unused", v)
		}
	})
}

func TestFault_F19_ThreeQuartersOfAGroupEndAtItsDeadline(t *testing.T) {
	for _, c := range []struct {
		name string
		min  int
		want subjects.Outcome
	}{{"whole or not at all", 0, subjects.Expired}, {"three will do", 3, subjects.Partial}} {
		t.Run(c.name, func(t *testing.T) {
			policy := external()
			policy.MinGroupSize = c.min
			later(t, policy, func(p *pipeline) {
				p.publish(p.publisher("p1"), "b", 0, 1, 2)
				p.pass(59 * time.Second)
				if v := p.verdicts("b"); v != nil {
					p.Fatalf("closed before its deadline: %+v", v)
				}
				p.pass(2 * time.Second)
				if v := p.verdicts("b"); len(v) != 1 || v[0].Outcome != c.want || len(v[0].Members) != 3 {
					p.Errorf("closed as %+v, want %s with three", v, c.want)
				}
			})
		})
	}
}

// A producer dies for good with half a group played, and nobody takes its place:
// the group ends, and so does the batch that waits for it.
func TestComplaint_2_AProducerThatLeavesWithinAGroupDoesNotWedgeTheBatch(t *testing.T) {
	policy := tasks(1)
	policy.MinGroupSize = 2
	later(t, policy, func(p *pipeline) {
		leave, n := p.fleet("short-lived", func(task *subjects.Task) *subjects.Trajectory {
			if task.Group == "t0" && task.Slot > 1 {
				return nil
			}
			return played(task)
		})
		p.pass(10 * time.Second)
		leave()
		p.pass(time.Hour)
		v := p.verdicts("t0")
		if len(v) == 0 || v[0].Outcome != subjects.Partial || !slices.Equal(slotsOf(v[0]), []int{0, 1}) {
			p.Errorf("t0 closed as %+v after %d played, want the two that came", v, n.Load())
		}
		if got := p.batches(); len(got) != 1 {
			p.Errorf("batches %v, want the first", got)
		}
	})
}

func TestComplaint_3_AStragglerFarBeyondTheDeadlineWedgesNothingNorDoesARestart(t *testing.T) {
	later(t, external(), func(p *pipeline) {
		pub := p.publisher("p1")
		p.publish(pub, "slow", 0, 1, 2)
		p.publish(pub, "quick", 0, 1, 2, 3)
		p.pass(2 * time.Minute)
		p.publish(pub, "next", 0, 1, 2, 3)
		p.pass(8 * time.Minute)
		second := p.group()
		p.publish(pub, "slow", 3) // ten times its deadline after the others
		p.pass(time.Minute)
		second()
		third := p.group()
		p.publish(pub, "later", 0, 1, 2, 3)
		p.publish(pub, "latest", 0, 1, 2, 3)
		p.pass(time.Minute)
		third()
		if v := p.verdicts("slow"); len(v) != 1 || v[0].Outcome != subjects.Expired {
			p.Errorf("slow closed as %+v, want expired once", v)
		}
		if got, want := fmt.Sprint(p.batches()), "[[quick next] [later latest]]"; got != want {
			p.Errorf("batches %s, want %s", got, want)
		}
	})
}

func TestComplaint_6_APromptThatAlwaysFailsIsGivenUpAndItsPlaceFilled(t *testing.T) {
	p := live(t, tasks(3))
	stop, _ := p.fleet("p1", func(task *subjects.Task) *subjects.Trajectory {
		if task.Group == "t1" {
			return failedOf(played(task))
		}
		return played(task)
	})
	defer stop()
	c := p.whole()
	for range 3 {
		if _, groups := p.train(c); slices.Contains(groups, "t1") {
			t.Error("trained on the prompt that failed")
		}
	}
	v := p.awaitVerdict("t1")
	if v.Outcome != subjects.TooFew || len(v.Members) != 0 || v.Unused < 3 {
		t.Errorf("closed as %+v, want too few, with a slot tried three times", v)
	}
}

// A producer that names a group after each trajectory makes groups of one,
// which have no baseline: none may be trained, and the verdicts say so.
func TestComplaint_19_AGroupKeyThatIsTheTrajectorysTrainsNothing(t *testing.T) {
	later(t, external(), func(p *pipeline) {
		pub := p.publisher("p1")
		for n := range 8 {
			p.publish(pub, subjects.GroupID(fmt.Sprint("uid", n)), 0)
		}
		p.pass(2 * time.Minute)
		for n := range 8 {
			v := p.verdicts(subjects.GroupID(fmt.Sprint("uid", n)))
			if len(v) != 1 || v[0].Outcome != subjects.Expired || len(v[0].Members) != 1 {
				p.Errorf("uid%d closed as %+v, want expired with one of four", n, v)
			}
		}
		if got := p.batches(); got != nil {
			p.Errorf("batches %v", got)
		}
	})
	if err := (grouper.Config{GroupSize: 1}).Validate(); err == nil {
		t.Error("a configuration with groups of one is accepted")
	}
}

// A task that never ends keeps its lease, by signs of life, for as long as it
// likes. It must not keep its group.
func TestComplaint_24_OneStuckTaskDoesNotHoldItsGroupForEver(t *testing.T) {
	policy := tasks(1)
	policy.SlotTimeout = 20 * time.Second
	later(t, policy, func(p *pipeline) {
		stop, n := p.fleet("p1", func(task *subjects.Task) *subjects.Trajectory {
			if task.Group == "t0" && task.Slot == 0 && task.Attempt == 0 {
				return nil // and the lease is kept
			}
			return played(task)
		})
		defer stop()
		p.pass(50 * time.Second)
		v := p.verdicts("t0")
		if len(v) == 0 || v[0].Outcome != subjects.Kept || v[0].Members[0].Attempt != 1 {
			p.Errorf("t0 closed as %+v after %d played, want kept with the second attempt", v, n.Load())
		}
		if got := p.batches(); len(got) != 1 {
			p.Errorf("batches %v, want one", got)
		}
	})
}
