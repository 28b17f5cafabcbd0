package trace

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// live plays a run of one step every ten seconds: a group of one, its batch, its
// commit, and the gauges of the time.
func (w *world) live(steps int) { w.liveFrom(0, steps) }

// liveFrom does so from the group of a number on.
func (w *world) liveFrom(first, steps int) {
	w.Helper()
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: run, Producer: "p1"})
	for n := first; n < first+steps; n++ {
		step, g := subjects.Step(n+1), subjects.TrainGroup(uint64(n))
		opened := time.Now().UnixNano()
		time.Sleep(5 * time.Second)
		at, err := p.Publish(w.Context(), played("p1", g, 0, time.Now().UnixNano()-2*sec, subjects.Succeeded))
		w.must(err)
		members := []subjects.Member{{Seq: at.Seq, Index: at.Index, Status: subjects.Succeeded}}
		now := time.Now().UnixNano()
		next := []subjects.Issue{{Kind: subjects.Train, First: uint64(n + 1), Count: 1, Step: step - 1}}
		if w.external {
			next = nil
		}
		w.send(run.LedgerSubject(), fmt.Sprint("l", n), &subjects.Entry{V: 1, Writer: "g1", At: now, Issued: next,
			Verdicts: []subjects.Verdict{{Group: g, Outcome: subjects.Kept, Members: members, Opened: opened, Closed: now}},
			Batches:  []subjects.Batch{{Step: step, Groups: []subjects.BatchGroup{{Group: g, Environment: "lake", Members: members}}, Rows: 1}}})
		time.Sleep(5 * time.Second)
		w.send(run.TelemetrySubject("produce", "p1"), fmt.Sprint("t", n), &subjects.Gauges{V: 1, Role: "produce", Instance: "p1", At: time.Now().UnixNano(), Values: map[string]float64{"slots": 1}})
		w.send(run.WeightsSubject(subjects.EventCommit), fmt.Sprint("c", n), &subjects.CommitEvent{V: 1, Step: step, Incarnation: 1, WaitSeconds: 8, TrainSeconds: 2, At: time.Now().UnixNano()})
	}
	w.must(p.Close(w.Context()))
}

// TestWrite_CostsWhatTheWindowHas wants that a run ten times as long is read as
// little of, for the same window.
func TestWrite_CostsWhatTheWindowHas(t *testing.T) {
	for name, c := range map[string]struct {
		steps int
		o     Options
	}{
		"the last minute":          {100, Options{Last: time.Minute}},
		"the last of a long run":   {1000, Options{Last: time.Minute}},
		"steps":                    {100, Options{First: 40, Final: 42}},
		"early steps of a long":    {1000, Options{First: 40, Final: 42}},
		"late steps of a long run": {1000, Options{First: 940, Final: 942}},
		"the first step":           {1000, Options{First: 1, Final: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.live(c.steps)
				r, err := Write(t.Context(), w.conn, run, c.o, io.Discard)
				w.must(err)
				want := 6 // of ten seconds each in a minute
				if c.o.First > 0 {
					want = int(c.o.Final-c.o.First) + 1
				}
				if r.Steps < want || r.Steps > want+1 || r.Trajectories < want || r.Groups < want {
					t.Errorf("%+v", r)
				}
				// four messages every ten seconds, from a little before to a minute after; an
				// entry of the ledger every ten seconds for eleven minutes; and looks for a step
				if most := 4*(want+15) + 60 + 40; r.Read > most {
					t.Errorf("%d messages read, want at most %d: %+v", r.Read, most, r)
				}
			})
		})
	}
}

func TestWrite_BatchesThatWereCutLongBeforeAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.live(3)
		cut := time.Now().UnixNano()
		w.send(run.LedgerSubject(), "early", &subjects.Entry{V: 1, Writer: "g1", At: cut, Batches: []subjects.Batch{{Step: 4, Groups: []subjects.BatchGroup{{Group: "t9", Members: []subjects.Member{{Seq: 1}}}}}}})
		for n := range 500 {
			time.Sleep(time.Minute)
			w.send(run.LedgerSubject(), fmt.Sprint("x", n), &subjects.Entry{V: 1, Writer: "g1", At: time.Now().UnixNano()})
		}
		w.send(run.WeightsSubject(subjects.EventCommit), "c", &subjects.CommitEvent{V: 1, Step: 4, Incarnation: 1, WaitSeconds: 30, TrainSeconds: 2, At: time.Now().UnixNano()})
		r := &reader{conn: w.conn, run: run, o: Options{Last: time.Minute}, report: &Report{}, d: newDrawing()}
		w.must(r.all(t.Context()))
		steps := r.d.process(trainerOf("")).rows["steps"].blocks
		if last := steps[len(steps)-1]; last.name != nameTrain || len(last.ends) != 1 || last.ends[0] != subjects.FlowID("t9", 0, 0) {
			t.Errorf("%+v", last)
		}
		if r.report.WaitSeconds != 30 { // of a trainer that had made steps before: no start
			t.Errorf("%+v", r.report)
		}
	})
}

func trainerOf(instance string) source { return source{roleTrainer, instance} }
