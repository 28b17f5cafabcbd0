package trainerbridge

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// gauges hears what the bridge reports each second.
func (w *world) gauges() (next func(want string, is func(*subjects.Gauges) bool) *subjects.Gauges) {
	w.Helper()
	in := make(chan *nats.Msg, 1024)
	sub, err := w.conn.NC().ChanSubscribe(testRun.TelemetrySubject("bridge", "b"), in)
	w.must(err)
	w.Cleanup(func() { _ = sub.Unsubscribe() })
	w.must(w.conn.NC().FlushWithContext(w.ctx()))
	return func(want string, is func(*subjects.Gauges) bool) *subjects.Gauges {
		w.Helper()
		var g subjects.Gauges
		for ctx := w.ctx(); ; {
			select {
			case m := <-in:
				w.must(subjects.DecodeMessage(m.Data, &g))
				if is(&g) {
					return &g
				}
			case <-ctx.Done():
				w.Fatalf("no report %s; the last was %v", want, g.Values)
			}
		}
	}
}

// TestBridge_SaysHowLongAStepTakesBeforeItIsOver: who looks while a trainer waits,
// or trains, sees it.
func TestBridge_SaysHowLongAStepTakesBeforeItIsOver(t *testing.T) {
	w := newWorld(t)
	next := w.gauges()
	c := w.serve(nil).dial(0)
	at := func(g *subjects.Gauges) (waited, trained float64, ok bool) {
		waited, ok = g.Values["step_wait_seconds"]
		trained, both := g.Values["step_train_seconds"]
		if ok != both {
			t.Errorf("half of it: %v", g.Values)
		}
		return waited, trained, ok
	}
	l := listen(t, c)
	next("of a trainer", func(g *subjects.Gauges) bool {
		if _, _, ok := at(g); ok {
			t.Errorf("its start: %v", g.Values)
		}
		return g.Values["trainers"] == 1
	})
	w.steps(1, 1)
	b := <-l.batch
	w.must(c.Commit(feed.Commit{Step: b.Step}))
	l = listen(t, c)
	waits := next("of a wait", func(g *subjects.Gauges) bool { waited, _, _ := at(g); return waited > 0 })
	if _, trained, _ := at(waits); trained != 0 {
		t.Errorf("trains meanwhile: %v", waits.Values)
	}
	w.steps(2, 2)
	b = <-l.batch
	trains := next("of a step", func(g *subjects.Gauges) bool { _, trained, _ := at(g); return trained > 0 })
	if waited, _, _ := at(trains); waited < waits.Values["step_wait_seconds"] {
		t.Errorf("had waited %v, then %v", waits.Values, trains.Values)
	}
	w.must(c.Commit(feed.Commit{Step: b.Step}))
	done := next("of the commit", func(g *subjects.Gauges) bool { return g.Values["committed_step"] == 2 })
	if _, _, ok := at(done); ok {
		t.Errorf("after the commit: %v", done.Values)
	}
}

// TestDoing_IsWhatTheNextCommitWillSay: events are a letter and the second they
// come in: N asks, b is a batch, e none, c a commit.
func TestDoing_IsWhatTheNextCommitWillSay(t *testing.T) {
	for events, want := range map[string]string{
		"":                                 "nothing",
		"N1":                               "nothing", // its start
		"N1 b5":                            "nothing",
		"N1 b5 c9":                         "nothing",
		"N1 b5 c9 N10":                     "waited 10 trained 0",
		"N1 b5 c9 N10 b12":                 "waited 2 trained 8",
		"N1 b5 c9 N10 b12 c15":             "nothing",
		"N1 b5 c9 N10 e12":                 "nothing",
		"N1 b2 N3 c5":                      "waited 15 trained 0", // asked early: it waits from the commit on
		"N1 b2 N3 b4 c5":                   "waited 0 trained 15", // got early: it trains from the commit on
		"N1 b2 c3 N4 b6 N7":                "waited 2 trained 14",
		"N1 b2 c3 N4 b6 N7 b8":             "waited 2 trained 14",
		"N1 b2 c3 N4 b6 N7 b8 c10":         "waited 0 trained 10",
		"N1 b2 c3 N4 b6 N7 b8 c10 c11":     "nothing",
		"N1 b2 c3 N4 b6 N7 b8 c10 c11 N12": "waited 8 trained 0",
	} {
		second := func(n int) time.Time { return time.Unix(int64(n), 0) }
		var d doing
		d.starts(40)
		delivered, committed := subjects.Step(40), subjects.Step(40)
		for rest, n := events, 0; rest != ""; {
			var kind rune
			if _, err := fmt.Sscanf(rest, "%c%d", &kind, &n); err != nil {
				t.Fatal(err)
			}
			rest = rest[min(len(fmt.Sprintf("%c%d ", kind, n)), len(rest)):]
			switch kind {
			case 'N':
				d.asks(second(n))
			case 'b':
				delivered++
				d.answered(delivered, second(n))
			case 'e':
				d.answered(0, second(n))
			case 'c':
				committed++
				d.commits(committed, second(n))
			}
		}
		got := "nothing"
		if waited, trained, ok := d.soFar(second(20)); ok {
			got = fmt.Sprintf("waited %.0f trained %.0f", waited.Seconds(), trained.Seconds())
		}
		if got != want {
			t.Errorf("%q: %s, want %s", events, got, want)
		}
	}
}
