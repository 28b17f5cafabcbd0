package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// Producers come first, and so may the whole run, before there is a trainer.
func TestFault_F1_ProducersThatComeBeforeTheTrainerLoseNothing(t *testing.T) {
	p := live(t, external())
	pub := p.publisher("p1")
	for n := range 4 {
		p.publish(pub, subjects.GroupID(fmt.Sprint("early", n)), 0, 1, 2, 3)
	}
	p.Cleanup(p.group())
	_, stop := p.bridge(nil)
	p.awaitVerdict("early3")
	stop() // a bridge that no trainer found
	p.publish(pub, "late0", 0, 1, 2, 3)
	address, _ := p.bridge(nil)
	c := p.dial(address, 0)
	p.publish(pub, "late1", 0, 1, 2, 3)
	var all []subjects.GroupID
	for range 3 {
		_, groups := p.train(c)
		all = append(all, groups...)
	}
	if want := []subjects.GroupID{"early0", "early1", "early2", "early3", "late0", "late1"}; !slices.Equal(all, want) {
		t.Errorf("trained %v, want %v", all, want)
	}
}

// queued has five batches ready before the trainer asks for the first.
func queued(t *testing.T) (p *pipeline, c *feed.Client) {
	p = live(t, external())
	pub := p.publisher("p1")
	for n := range 10 {
		p.publish(pub, subjects.GroupID(fmt.Sprint("g", n)), 0, 1, 2, 3)
	}
	c = p.whole()
	p.await("batch 5", func(e *subjects.Entry) bool { return len(e.Batches) > 0 && e.Batches[len(e.Batches)-1].Step == 5 })
	return p, c
}

func TestFault_F4_BatchesComeOldestFirst(t *testing.T) {
	p, c := queued(t)
	for n := range 5 {
		b, groups := p.train(c)
		want := []subjects.GroupID{subjects.GroupID(fmt.Sprint("g", 2*n)), subjects.GroupID(fmt.Sprint("g", 2*n+1))}
		if int(b.Step) != n+1 || !slices.Equal(groups, want) {
			t.Errorf("batch %d is step %d with %v, want %v", n+1, b.Step, groups, want)
		}
	}
}

// What paces the producers is the step that was trained, not the batches that
// were cut or handed out.
func TestFault_F5_StepsAreCountedWhenTheyAreTrained(t *testing.T) {
	p, c := queued(t)
	p.awaitGauges("five cut and none trained", func(v map[string]float64) bool { return v["next_step"] == 6 && v["committed_step"] == 0 })
	p.train(c)
	if _, _, err := c.Next(); err != nil { // has the second batch, has not trained on it
		t.Fatal(err)
	}
	p.awaitGauges("five cut and one trained", func(v map[string]float64) bool { return v["next_step"] == 6 && v["committed_step"] == 1 })
}

// awaitGauges waits for a report of the grouper.
func (p *pipeline) awaitGauges(what string, ok func(map[string]float64) bool) {
	p.Helper()
	done, g := errors.New("done"), subjects.Gauges{}
	err := bus.Follow(p.ctx(), p.conn, run.StreamName(subjects.Telemetry), run.TelemetrySubject("grouper", "g"), 1, func(m *bus.Msg) error {
		if err := subjects.DecodeMessage(m.Data, &g); err != nil || !ok(g.Values) {
			return err
		}
		return done
	})
	if !errors.Is(err, done) {
		p.Errorf("the grouper never said %s: %v; at last %v", what, err, g.Values)
	}
}

// Two producers on one stream, in one group, at once.
func TestFault_F11_ProducersShareStreamAndGroups(t *testing.T) {
	p := live(t, external())
	one, two := p.publisher("p1"), p.publisher("p2")
	for n := range 8 {
		g := subjects.GroupID(fmt.Sprint("g", n))
		p.publish(one, g, 0)
		p.publish(two, g, 1, 2)
		p.publish(one, g, 3)
	}
	c := p.whole()
	for range 4 {
		if b, _ := p.train(c); b.Rows != 8 {
			t.Errorf("step %d has %d rows", b.Step, b.Rows)
		}
	}
}

// The dataset ends, and so do the producers: the last batch is what is left,
// and the trainer is told.
func TestComplaint_5_TheEndOfTheDatasetEndsTheRun(t *testing.T) {
	p := open(t, natstest.InProcess(t), tasks(0), 3)
	stop, count := p.fleet("p1", played)
	c := p.whole()
	p.train(c)
	p.until("all is played", func() bool { return count.Load() == 3*4 })
	stop()
	if b, groups := p.train(c); len(groups) != 1 || b.Rows != 4 {
		t.Errorf("the last batch has %v in %d rows, want the group that is left", groups, b.Rows)
	}
	var end *feed.EndError
	if _, _, err := c.Next(); !errors.As(err, &end) || end.Steps != 2 {
		t.Errorf("%v, want the end after 2 steps", err)
	}
}

// Producers are paced by what the trainer has committed, however fast they are:
// nothing older than allowed is trained, and nothing piles up.
func TestComplaint_11_FastProducersWaitForTheTrainer(t *testing.T) {
	const steps, perStep = 12, 2 * 4
	p := live(t, tasks(steps))
	stop, count := p.fleet("fast", played)
	defer stop()
	c := p.whole()
	for step := range int64(steps) {
		// All that may be played for the steps up to one ahead, and then nothing.
		want := min(step+2, steps) * perStep
		p.until("the fleet is out of tasks", func() bool { return count.Load() >= want })
		b, _ := p.train(c)
		if b.Staleness.Max > 1 {
			t.Errorf("step %d is %d versions old", b.Step, b.Staleness.Max)
		}
		if n := count.Load(); n > want+perStep { // it may have begun on what the commit allows
			t.Errorf("%d played at step %d, want %d at most", n, step, want+perStep)
		}
	}
	var end *feed.EndError
	if _, _, err := c.Next(); !errors.As(err, &end) || end.Reason != "complete" {
		t.Errorf("%v, want complete", err)
	}
}

// The run ends while groups are in flight, half of them held back: each that was
// issued has a verdict.
func TestComplaint_10_AnEndLeavesNoGroupOpen(t *testing.T) {
	policy := external()
	policy.Steps = 2
	p := live(t, policy)
	pub := p.publisher("p1")
	for n := range 6 {
		p.publish(pub, subjects.GroupID(fmt.Sprint("g", n)), 0, 1)
	}
	for n := range 5 {
		p.publish(pub, subjects.GroupID(fmt.Sprint("g", n)), 2, 3)
	}
	c := p.whole()
	p.train(c)
	p.train(c)
	var end *feed.EndError
	if _, _, err := c.Next(); !errors.As(err, &end) || end.Reason != "complete" {
		t.Fatalf("%v, want complete", err)
	}
	for n := range 6 {
		v := p.verdicts(subjects.GroupID(fmt.Sprint("g", n)))
		if len(v) == 0 || n > 3 && v[len(v)-1].Outcome != subjects.Cancelled {
			t.Errorf("g%d closed as %+v", n, v)
		}
	}
}

// until waits until ok, looking again now and then.
func (p *pipeline) until(what string, ok func() bool) {
	p.Helper()
	ctx := p.ctx()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			p.Fatalf("waited %s until %s: %v", patience, what, context.Cause(ctx))
		case <-again.C:
		}
	}
}
