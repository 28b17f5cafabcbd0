package trace

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headrace/headrace/subjects"
)

// TestCommit_IsFoundHoweverOftenTheTrainerCameBack: steps fall back to a
// checkpoint now and then, and other events lie between the commits.
func TestCommit_IsFoundHoweverOftenTheTrainerCameBack(t *testing.T) {
	for seed := range uint64(8) {
		w, rng := newWorld(t), rand.New(rand.NewPCG(seed, 1))
		last, incarnation := subjects.Step(0), 1
		for n := range 60 {
			if rng.IntN(10) == 0 && last > 0 {
				last -= subjects.Step(rng.Int64N(int64(last)))
				incarnation++
				w.send(run.WeightsSubject(subjects.EventResumed), fmt.Sprint("r", n), &subjects.ResumedEvent{V: 1, Step: last, Incarnation: incarnation, At: t0 + int64(n)*sec})
			}
			last++
			w.send(run.WeightsSubject(subjects.EventCommit), fmt.Sprint("c", n), &subjects.CommitEvent{V: 1, Step: last, Incarnation: incarnation, At: t0 + int64(n)*sec})
		}
		most := subjects.Step(0)
		r := &reader{conn: w.conn, run: run, report: &Report{}}
		for step := subjects.Step(1); ; step++ {
			c, err := r.commit(t.Context(), step)
			w.must(err)
			if c == nil {
				break
			}
			if most = step; c.event.Step != step {
				t.Fatalf("seed %d: step %d for %d", seed, c.event.Step, step)
			}
		}
		if most < last || r.report.Read > 12*int(most+1) {
			t.Errorf("seed %d: found up to %d, the last is %d; %d looks", seed, most, last, r.report.Read)
		}
	}
}

func TestCommit_OneThatIsLostLeadsToTheNext(t *testing.T) {
	w := newWorld(t)
	for _, step := range []subjects.Step{1, 2, 4, 5} {
		w.send(run.WeightsSubject(subjects.EventCommit), fmt.Sprint("c", step), &subjects.CommitEvent{V: 1, Step: step, Incarnation: 1, At: t0})
	}
	r := &reader{conn: w.conn, run: run, report: &Report{}}
	c, err := r.commit(t.Context(), 3)
	w.must(err)
	if c == nil || c.event.Step != 4 {
		t.Errorf("%+v", c)
	}
	if c, err = r.commit(t.Context(), 6); c != nil || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
}
