package trainerbridge

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// say publishes what a watchdog says: declared, on TELEMETRY, or as a hint.
func (w *world) say(declared bool, s subjects.Stall) {
	w.Helper()
	s.At = time.Now().UnixNano()
	data, err := subjects.EncodeMessage(&s)
	w.must(err)
	subject := testRun.StallSubject()
	if declared {
		subject = testRun.TelemetrySubject(subjects.WatchdogRole, "g")
	}
	w.must(w.conn.NC().Publish(subject, data))
}

// listening is a trainer that waits for its next batch and what it hears.
type listening struct {
	t       testing.TB
	notices chan feed.Notice
	batch   chan *feed.Batch
	end     chan *feed.EndError
}

func listen(t testing.TB, c *feed.Client) *listening {
	l := &listening{t: t, notices: make(chan feed.Notice, 1024), batch: make(chan *feed.Batch, 1), end: make(chan *feed.EndError, 1)}
	c.OnNotice = func(n feed.Notice) { l.notices <- n }
	go func() {
		b, _, err := c.Next()
		var end *feed.EndError
		if errors.As(err, &end) {
			l.end <- end
		}
		l.batch <- b
	}()
	return l
}

// hears waits for a stall notice with a code.
func (l *listening) hears(code subjects.StallCode) feed.Notice {
	l.t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case n := <-l.notices:
			if n.Kind == "stall" && n.Code == code {
				return n
			}
		case <-late:
			l.t.Fatalf("no notice of %q", code)
		}
	}
}

func (l *listening) ends() *feed.EndError {
	l.t.Helper()
	select {
	case e := <-l.end:
		return e
	case <-time.After(20 * time.Second):
		l.t.Fatal("no end")
		return nil
	}
}

func TestBridge_TrainerHearsWhatTheWatchdogFound(t *testing.T) {
	w := newWorld(t)
	begun := time.Now()
	l := listen(t, w.serve(nil).dial(0)) // which would say something by itself after 5 s
	stop := w.repeat(true, subjects.Stall{Stage: subjects.StageProducer, Code: subjects.NoProducers, Text: "nobody plays", Since: begun.Add(-time.Minute).UnixNano()})
	n := l.hears(subjects.NoProducers)
	stop()
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("heard after %v", took)
	}
	if n.Stage != subjects.StageProducer || n.Text != "nobody plays" || n.SinceS < 59 || n.SinceS > 90 {
		t.Errorf("heard %+v", n)
	}
	stop = w.repeat(true, subjects.Stall{Stage: subjects.StageGrouper, Text: "the run moves again"})
	l.hears("")
	stop()
	w.steps(1, 1)
	if b := <-l.batch; b == nil || b.Step != 1 {
		t.Errorf("got %+v", b)
	}
}

// repeat says something again and again: a bridge may not listen yet.
func (w *world) repeat(declared bool, s subjects.Stall) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			w.say(declared, s)
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

func TestBridge_HintSaysWhatIsWaitedForBeforeItIsAStall(t *testing.T) {
	w := newWorld(t)
	l := listen(t, w.serve(func(c *Config) { c.stallEvery = 10 * time.Millisecond }).dial(0))
	defer w.repeat(false, subjects.Stall{Stage: subjects.StageEngine, Code: subjects.NoEngine, Text: "no engine is registered"})()
	if n := l.hears(subjects.NoEngine); n.Text != "no engine is registered" {
		t.Errorf("heard %+v", n)
	}
}

func TestBridge_TrainerHearsThatTheBusIsGoneAndThenGoesOn(t *testing.T) {
	server := natstest.NewRestartable(t)
	w := &world{TB: t, conn: server.Connect(t)}
	w.must(bus.EnsureStreams(w.ctx(), w.conn, testRun, subjects.StreamOptions{}))
	l := listen(t, w.serve(nil).dial(0))
	begun := time.Now()
	server.Stop()
	if n := l.hears(subjects.BusUnreachable); n.Stage != subjects.StageBus {
		t.Errorf("heard %+v", n)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("heard after %v", took)
	}
	server.Start(t)
	for ctx := w.ctx(); !w.conn.NC().IsConnected(); {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("does not reconnect")
		}
	}
	w.steps(1, 1)
	if b := <-l.batch; b == nil || b.Step != 1 {
		t.Errorf("got %+v", b)
	}
}

func TestBridge_TrainerHearsThatNoGrouperIsThere(t *testing.T) {
	w := newWorld(t)
	l := listen(t, w.serve(func(c *Config) { c.silence = 200 * time.Millisecond }).dial(0))
	n := l.hears(subjects.GrouperGone)
	if n.Stage != subjects.StageGrouper || !strings.Contains(n.Text, "nothing was heard of a grouper") {
		t.Errorf("heard %+v", n)
	}
}

// TestBridge_EndThatTheLedgerHasNoRoomForIsPassedOn: the disk is full, and the
// grouper says so on its way out.
func TestBridge_EndThatTheLedgerHasNoRoomForIsPassedOn(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 1)
	c := w.serve(nil).dial(0)
	defer w.repeat(false, subjects.Stall{Stage: subjects.StageBus, Code: subjects.DiskFull, Text: "no room", End: subjects.EndDiskFull})()
	train(t, c, 1) // which is in the ledger, and comes first
	if end := listen(t, c).ends(); end.Reason != subjects.EndDiskFull || end.Text != "no room" || end.Steps != 1 {
		t.Errorf("ended with %+v", end)
	}
}

// TestBridge_StopsWithTheReasonOfTheRun: a bridge that is stopped because its run
// has ended says why, not that it drains.
func TestBridge_StopsWithTheReasonOfTheRun(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 1)
	s := w.serve(nil)
	c := s.dial(0)
	train(t, c, 1)
	w.entry(subjects.Entry{End: subjects.EndNoProducers, EndText: "nobody plays"})
	if end := listen(t, c).ends(); end.Reason != subjects.EndNoProducers || end.Text != "nobody plays" {
		t.Errorf("ended with %+v", end)
	}
	s.stop()
	var end *feed.EndError
	if _, _, err := c.Next(); !errors.As(err, &end) || end.Reason != subjects.EndNoProducers {
		t.Errorf("then %v", err)
	}
	w.must(c.Close("done"))
	w.must(s.end())
}
