package service_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/grouper/watchdog"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// patience of the runs here, in a bubble's time.
var impatient = watchdog.Config{After: 5 * time.Second, EndAfter: 20 * time.Second}

// small is a run of two groups a batch, without inspector and evaluation.
func small() grouper.Config {
	return grouper.Config{Steps: 3, GroupSize: 2, GroupsPerBatch: 2, MaxStaleness: new(0), VersionWait: time.Millisecond, Inspect: new(false)}
}

// ending is the account of a run: its error, its ledger, what the watchdog said.
type ending struct {
	err    error
	took   time.Duration
	ledger []subjects.Entry
	stalls []subjects.Stall // in TELEMETRY
	hints  []subjects.Stall // on the stall subject
}

// endOf plays a run to its end, in a bubble. others start what surrounds the grouper.
func endOf(t *testing.T, g grouper.Config, others func(*bench)) (out ending) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, natstest.InProcess(t), g)
		b.cfg.Watchdog = impatient
		var mu sync.Mutex
		defer b.start(func(ctx context.Context) error {
			return bus.Follow(ctx, b.conn, run.StreamName(subjects.Telemetry), run.TelemetrySubject(subjects.WatchdogRole, "*"), 1, func(m *bus.Msg) error {
				mu.Lock()
				defer mu.Unlock()
				out.stalls = append(out.stalls, decoded(t, m.Data))
				return nil
			})
		})()
		sub, err := b.conn.NC().SubscribeSync(run.StallSubject())
		if err != nil {
			t.Fatal(err)
		}
		if others != nil {
			others(b)
		}
		begun := time.Now()
		out.err = service.Run(t.Context(), b.cfg)
		out.took = time.Since(begun)
		for {
			m, err := sub.NextMsgWithContext(expired())
			if m == nil || err != nil {
				break
			}
			out.hints = append(out.hints, decoded(t, m.Data))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		out.ledger = b.written()
		b.wantNoTasks()
	})
	return out
}

func expired() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	context.AfterFunc(ctx, cancel)
	return ctx
}

func decoded(t *testing.T, b []byte) (s subjects.Stall) {
	t.Helper()
	if err := subjects.DecodeMessage(b, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// written is the ledger so far.
func (b *bench) written() (out []subjects.Entry) {
	b.t.Helper()
	state, err := bus.StreamState(b.t.Context(), b.conn, run, subjects.Ledger)
	if err != nil {
		b.t.Fatal(err)
	}
	for seq := state.FirstSeq; seq <= state.LastSeq && seq > 0; seq++ {
		m, err := bus.Read(b.t.Context(), b.conn, run.StreamName(subjects.Ledger), seq)
		if err != nil {
			b.t.Fatal(err)
		}
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			b.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// wantNoTasks wants an empty queue, leases included.
func (b *bench) wantNoTasks() {
	b.t.Helper()
	if state, err := bus.StreamState(b.t.Context(), b.conn, run, subjects.Tasks); err != nil || state.Msgs > 0 {
		b.t.Errorf("%d tasks in the queue, %v", state.Msgs, err)
	}
}

// wants checks how a run ended: the reason in error and ledger, a verdict on
// every group that was issued, and the stall it began with.
func (e *ending) wants(t *testing.T, reason string, code subjects.StallCode, text string) {
	t.Helper()
	last := e.ledger[len(e.ledger)-1]
	var ended *service.Ended
	switch {
	case subjects.Achieved(reason) && e.err != nil:
		t.Errorf("error %v", e.err)
	case !subjects.Achieved(reason) && (!errors.As(e.err, &ended) || ended.Reason != reason || !strings.Contains(ended.Text, text)):
		t.Errorf("error %v, want %s: %s", e.err, reason, text)
	}
	if last.End != reason {
		t.Errorf("the ledger ends with %q, want %q", last.End, reason)
	}
	issued, closed := map[subjects.GroupID]bool{}, map[subjects.GroupID]bool{}
	for _, entry := range e.ledger {
		for _, is := range entry.Issued {
			for n := range is.Count {
				issued[subjects.TrainGroup(is.First+uint64(n))] = is.Kind == subjects.Train
			}
		}
		for _, v := range entry.Verdicts {
			closed[v.Group] = true
		}
	}
	for g, train := range issued {
		if train && !closed[g] {
			t.Errorf("group %s has no verdict", g)
		}
	}
	if code == "" {
		return
	}
	if len(e.stalls) == 0 || e.stalls[0].Code != code || !strings.Contains(e.stalls[0].Text, text) || e.stalls[0].Seconds() < 5 || e.stalls[0].Seconds() > 8 {
		t.Errorf("said %+v, want %s: %s", e.stalls, code, text)
	}
	if len(e.hints) == 0 || e.hints[0].Code != code || e.hints[0].Seconds() > 8 {
		t.Errorf("hinted %+v, want %s within 8 s", e.hints, code)
	}
	if e.took < 20*time.Second || e.took > 40*time.Second {
		t.Errorf("took %v, want 20 s of standing still", e.took)
	}
}

func TestRun_EndsWhenNobodyPlays(t *testing.T) {
	e := endOf(t, small(), nil)
	e.wants(t, subjects.EndNoProducers, subjects.NoProducers, "waits for 2 slots of group t0: no producer is connected")
}

func TestRun_EndsWithoutAnEngine(t *testing.T) {
	e := endOf(t, small(), func(b *bench) { b.gauges("p1", nil) })
	e.wants(t, subjects.EndEngineGone, subjects.NoEngine, "no engine is registered")
}

func TestRun_EndsWhenEveryGroupIsZeroVariance(t *testing.T) {
	e := endOf(t, small(), func(b *bench) {
		b.slowly(func(tr *subjects.Trajectory) { tr.Reward = 1 })
	})
	e.wants(t, subjects.EndAllFiltered, subjects.AllZeroVariance, "all of the last 10 groups were zero-variance")
}

func TestRun_EndsWhenEveryTrajectoryFails(t *testing.T) {
	e := endOf(t, small(), func(b *bench) {
		b.slowly(func(tr *subjects.Trajectory) { tr.Status, tr.Reason, tr.Reward = subjects.Failed, "engine", 0 })
	})
	e.wants(t, subjects.EndAllFiltered, subjects.AllFiltered, "dropped: 10 too few")
}

func TestRun_EndsWhenEverythingIsStale(t *testing.T) {
	e := endOf(t, small(), func(b *bench) {
		b.slowly(func(tr *subjects.Trajectory) { tr.Segments[0].Versions[0].Version = 0 })
		b.t.Cleanup(b.start(b.trainer)) // commits step 1: from then on version 0 is too old
	})
	e.wants(t, subjects.EndAllStale, subjects.AllStale, "all of the last 10 groups were stale: too old for the batch of step 2")
}

func TestRun_EndsWithItsDataset(t *testing.T) {
	g := small()
	g.Steps = 0
	e := endOf(t, g, func(b *bench) {
		data, err := dataset.Open(dataset.Config{Epochs: 1, Seeds: dataset.Range{First: 1, Count: 5}, EvalSeeds: dataset.Range{First: 100, Count: 4}}, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		b.cfg.Dataset = data
		b.slowly(nil)
		b.t.Cleanup(b.start(b.trainer))
	})
	e.wants(t, subjects.EndDataset, "", "")
	groups := 0
	for _, entry := range e.ledger {
		for _, batch := range entry.Batches {
			groups += len(batch.Groups)
		}
	}
	if groups != 5 {
		t.Errorf("%d of 5 groups are trained", groups)
	}
}

func TestEnd_EmptyDatasetEndsARunAtOnce(t *testing.T) {
	b := newBench(t, natstest.Loopback(t), small())
	b.cfg.Dataset = nil
	err := service.End(t.Context(), b.cfg, subjects.EndEmptyDataset, "tasks.jsonl has no rows")
	e := ending{err: err, ledger: b.written()}
	e.wants(t, subjects.EndEmptyDataset, "", "tasks.jsonl has no rows")
	if len(e.ledger) != 1 {
		t.Errorf("%d entries", len(e.ledger))
	}
}

func TestRun_EndsWhenItsRecordSaysSo(t *testing.T) {
	b := newBench(t, natstest.Loopback(t), small())
	record := &subjects.RunRecord{V: 1, Run: run, Schema: subjects.SchemaVersion, Recipe: []byte(`{}`)}
	if err := errors.Join(bus.CreateRun(t.Context(), b.conn, record), bus.EndRun(t.Context(), b.conn, run, "cancelled")); err != nil {
		t.Fatal(err)
	}
	e := ending{err: service.Run(t.Context(), b.cfg), ledger: b.written()}
	e.wants(t, subjects.EndCancelled, "", "somebody ended it")
	b.wantNoTasks()
	// A second grouper finds the end and leaves.
	again := ending{err: service.Run(t.Context(), b.cfg), ledger: b.written()}
	again.wants(t, subjects.EndCancelled, "", "somebody ended it")
}

// TestRun_EndsWithoutRoomForTheEnd has a ledger that takes nothing: the end
// cannot be written, and is said all the same.
func TestRun_EndsWithoutRoomForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, natstest.InProcess(t), small())
		b.cfg.Watchdog = impatient
		stream, err := b.conn.JS().Stream(t.Context(), run.StreamName(subjects.Ledger))
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxBytes = 1
		if _, err := b.conn.JS().UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var last subjects.Stall
		sub, err := b.conn.NC().Subscribe(run.StallSubject(), func(m *natsMsg) {
			mu.Lock()
			defer mu.Unlock()
			last = decoded(t, m.Data)
		})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Unsubscribe() //nolint:errcheck // the test is over
		var ended *service.Ended
		if err := service.Run(t.Context(), b.cfg); !errors.As(err, &ended) || ended.Reason != subjects.EndDiskFull {
			t.Errorf("error %v", err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if last.Code != subjects.DiskFull || last.End != subjects.EndDiskFull || len(b.written()) != 0 {
			t.Errorf("last word %+v, %d entries", last, len(b.written()))
		}
	})
}

// TestRun_SaysWhoHoldsTheTasks: one producer takes every task and hangs, another
// one is idle; then the first comes back, and the run ends well.
func TestRun_SaysWhoHoldsTheTasks(t *testing.T) {
	g := small()
	g.Steps = 1
	e := endOf(t, g, func(b *bench) {
		if err := bus.PutEngine(b.t.Context(), b.conn, run, &subjects.EngineRecord{V: 1, Engine: "e0", Ready: true}); err != nil {
			t.Fatal(err)
		}
		b.gauges("p1", nil)
		b.t.Cleanup(b.start(b.trainer))
		b.t.Cleanup(b.start(func(ctx context.Context) error {
			leases, err := bus.Tasks(ctx, b.conn, run, zerolog.Nop())
			if err != nil {
				return err
			}
			defer leases.Close() //nolint:errcheck // nothing to lose
			p := bus.NewPublisher(b.conn, bus.PublisherConfig{Run: run, Producer: "p2"})
			defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
			var held []*bus.Lease
			var names []subjects.HeldLease
			for range 4 {
				l, err := leases.Next(ctx)
				if err != nil {
					return err
				}
				held, names = append(held, l), append(names, subjects.HeldLease{Task: l.Task.ID()})
			}
			b.gauge("p2", names)
			select {
			case <-time.After(15 * time.Second):
			case <-ctx.Done():
				return nil
			}
			for _, l := range held {
				if _, err := p.Publish(ctx, trajectory(l.Task)); err != nil {
					return err
				}
				if err := l.Ack(ctx); err != nil {
					return err
				}
			}
			<-ctx.Done()
			return nil
		}))
	})
	if e.err != nil || e.ledger[len(e.ledger)-1].End != subjects.EndComplete {
		t.Fatalf("ended with %v: %+v", e.err, e.ledger[len(e.ledger)-1])
	}
	var said []string
	for _, s := range e.stalls {
		said = append(said, string(s.Code)+": "+s.Text)
	}
	if len(said) != 3 || !strings.HasPrefix(said[0], "slots_leased: grouper waits for 2 slots of group t0, leased to producer p2 for ") ||
		!strings.Contains(said[1], "last heartbeat 1") || said[2] != ": the run has ended" {
		t.Errorf("said %q", said)
	}
}
