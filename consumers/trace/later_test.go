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

// late plays three steps, and then three more minutes of them while slot 7 of the
// group that was handed out last before is being played for so long. It returns
// the window's end, which is that of step 3.
func (w *world) late(lasts time.Duration, handedOut bool) {
	w.Helper()
	if !handedOut {
		w.external = true
	}
	w.live(3)
	start := time.Now().UnixNano() - 2*sec
	w.liveFrom(3, int(lasts/(10*time.Second)))
	t := played("p1", subjects.TrainGroup(2), 7, start, subjects.Succeeded)
	t.Finished = time.Now().UnixNano()
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: run, Producer: "p1"})
	_, err := p.Publish(w.Context(), t)
	w.must(err)
	w.must(p.Close(w.Context()))
	now := time.Now().UnixNano()
	w.send(run.LedgerSubject(), "late", &subjects.Entry{V: 1, Writer: "g1", At: now, Verdicts: []subjects.Verdict{{Group: "t99", Outcome: subjects.Kept, Opened: start, Closed: now}}})
	w.liveFrom(500, 2)
}

// TestWrite_AnEpisodeThatEndsLongAfterItsWindow is drawn, whole, and what began
// after the window is not even read.
func TestWrite_AnEpisodeThatEndsLongAfterItsWindow(t *testing.T) {
	for _, c := range []struct {
		lasts     time.Duration
		handedOut bool
		want      bool
	}{
		{30 * time.Second, true, true}, {8 * time.Minute, true, true}, {30 * time.Second, false, true},
		{8 * time.Minute, false, false}, // of groups from outside nobody knows when they began
		{12 * time.Minute, true, false},
	} {
		t.Run(fmt.Sprint(c.lasts, c.handedOut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.late(c.lasts, c.handedOut)
				r := &reader{conn: w.conn, run: run, o: Options{First: 2, Final: 3, MaxTrajectories: 100}, report: &Report{}, d: newDrawing()}
				w.must(r.all(t.Context()))
				longest := int64(0)
				for _, b := range r.d.process(source{roleProducer, "p1"}).rows["episodes"].blocks {
					longest = max(longest, b.end-b.start)
				}
				if drawn := longest > int64(c.lasts); drawn != c.want {
					t.Errorf("the longest that is drawn takes %v", time.Duration(longest))
				}
				if bodies := len(r.wanted); c.handedOut && bodies > 6 {
					t.Errorf("%d messages fetched", bodies)
				}
				if more := c.lasts >= 11*time.Minute; r.report.Until.IsZero() == more {
					t.Errorf("looked until %v", r.report.Until)
				}
			})
		})
	}
}

// TestWrite_AGroupThatClosesLongAfterItsWindow is drawn, too, beside that of the
// step and the one that opened at its end.
func TestWrite_AGroupThatClosesLongAfterItsWindow(t *testing.T) {
	for lasts, want := range map[time.Duration]int{8 * time.Minute: 3, 12 * time.Minute: 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.late(lasts, true)
			report, err := Write(t.Context(), w.conn, run, Options{First: 3, Final: 3}, io.Discard)
			w.must(err)
			if report.Groups != want {
				t.Errorf("%v: %+v", lasts, report)
			}
		})
	}
}

func TestIssued_WhatMayHaveBegun(t *testing.T) {
	var s issued
	if s.add(nil); s.known {
		t.Error("known of nothing")
	}
	s.add([]subjects.Issue{{Kind: subjects.Train, First: 7, Count: 3, Step: 4}, {Kind: subjects.Eval, Round: 4, Step: 4}})
	for group, want := range map[string]bool{"t0": true, "t9": true, "t10": false, "t11": false, "e5-1": true, "e6-1": false, "mine": true} {
		e := subjects.IndexEntry{Kind: subjects.Train, Group: subjects.GroupID(group), Status: subjects.Succeeded, Segments: 1, Environment: "lake", Length: 1, MinVersion: subjects.NoVersion, MaxVersion: subjects.NoVersion}
		if _, err := fmt.Sscanf(group, "e%d-", &e.Round); err == nil {
			e.Kind = subjects.Eval
		}
		if _, err := subjects.ParseIndex(e.String()); err != nil {
			t.Fatal(err)
		}
		if got := s.may(map[string][]string{subjects.HeaderIndex: {"nonsense", e.String()}}); got != want {
			t.Errorf("%s: %v", group, got)
		}
	}
}
