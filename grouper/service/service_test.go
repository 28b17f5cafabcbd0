package service_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const run = subjects.Run("test")

// bench is a run on a real server, with everything around the grouper played
// by the test.
type bench struct {
	t    *testing.T
	conn *bus.Conn
	cfg  service.Config
}

func newBench(t *testing.T, srv *bus.Server, g grouper.Config) *bench {
	t.Helper()
	c := natstest.Connect(t, srv)
	if err := bus.EnsureStreams(t.Context(), c, run, subjects.StreamOptions{RolloutBytes: 1 << 28}); err != nil {
		t.Fatal(err)
	}
	data, err := dataset.Open(dataset.Config{}, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, conn: c, cfg: service.Config{Conn: c, Run: run, Grouper: g, Dataset: data, Environment: "lake",
		Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8, Seed: 1}, Writer: "a", Log: zerolog.Nop(), Standby: 20 * time.Millisecond}}
}

// start runs fn until stop, which waits for it.
func (b *bench) start(fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			b.t.Error(err)
		}
	})
	return func() { cancel(); wg.Wait() }
}

func (b *bench) grouper(ctx context.Context) error { return service.Run(ctx, b.cfg) }

// producer plays tasks: rewards differ by slot.
func (b *bench) producer(ctx context.Context) error {
	leases, err := bus.Tasks(ctx, b.conn, run, zerolog.Nop())
	if err != nil {
		return err
	}
	defer func() { _ = leases.Close() }()
	p := bus.NewPublisher(b.conn, bus.PublisherConfig{Run: run, Producer: "p" + strconv.Itoa(rand.IntN(1<<30))})
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
	var wg sync.WaitGroup
	defer wg.Wait()
	errs := make(chan error, 16)
	for range 16 {
		wg.Go(func() { errs <- b.play(ctx, leases, p) })
	}
	for range 16 {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (b *bench) play(ctx context.Context, leases *bus.Leases, p *bus.Publisher) error {
	for {
		l, err := leases.Next(ctx)
		if err != nil {
			return err
		}
		if _, err := p.Publish(ctx, trajectory(l.Task)); err != nil {
			return err
		}
		if err := l.Ack(ctx); err != nil {
			return err
		}
	}
}

func trajectory(t *subjects.Task) *subjects.Trajectory {
	tr := &subjects.Trajectory{Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Round: t.Round, Environment: t.Environment,
		Seed: t.Seed, Producer: "p", Tokenizer: "bytes", Sampling: t.Sampling, Status: subjects.Succeeded, Reward: float64(int(t.Slot)+int(t.Seed)%2) / 2, Token: t.Token}
	tr.Segments = []subjects.Segment{{Parent: -1, Tokens: []int32{1, 2, 3}, Logprobs: []float32{-1}, LossMask: []subjects.Span{{Start: 2, End: 3}},
		Versions: []subjects.VersionSpan{{Start: 2, End: 3, Version: 1 << 30}}}}
	return tr
}

// trainer commits every batch of the ledger, once.
func (b *bench) trainer(ctx context.Context) error {
	return bus.Follow(ctx, b.conn, run.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		for i := range e.Batches {
			if err := b.commit(ctx, e.Batches[i].Step); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *bench) commit(ctx context.Context, step subjects.Step) error {
	data, err := subjects.EncodeMessage(&subjects.CommitEvent{V: 1, Step: step, Incarnation: 1})
	if err == nil {
		_, err = bus.Send(ctx, b.conn, run.WeightsSubject(subjects.EventCommit), fmt.Sprint("commit-", step), nil, data)
	}
	return err
}

// inspector believes everything, and says so again and again: a grouper may
// not have been there to hear it.
func (b *bench) inspector(ctx context.Context) error {
	var seq atomic.Uint64
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for again := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-again.C {
			_ = b.conn.NC().Publish(run.InspectedSubject(), strconv.AppendUint(nil, seq.Load(), 10))
		}
	})
	return bus.FollowHeaders(ctx, b.conn, run, 1, func(m []bus.HeaderMsg) error {
		seq.Store(m[len(m)-1].Seq)
		return b.conn.NC().Publish(run.InspectedSubject(), strconv.AppendUint(nil, m[len(m)-1].Seq, 10))
	})
}

// ledger waits for the entry that ends the run and returns all of them.
func (b *bench) ledger() (out []subjects.Entry) {
	b.t.Helper()
	done := errors.New("done")
	err := bus.Follow(b.t.Context(), b.conn, run.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		if out = append(out, e); e.End != "" {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		b.t.Fatal(err)
	}
	return out
}

// audit wants every step once, every group in one batch at most and whole, and
// every issued group closed once or open at the end.
func audit(t *testing.T, ledger []subjects.Entry, steps, size int) {
	t.Helper()
	issued, closed, batched, next := map[subjects.GroupID]bool{}, map[subjects.GroupID]subjects.Outcome{}, map[subjects.GroupID]bool{}, subjects.Step(1)
	for i := range ledger {
		e := &ledger[i]
		for _, is := range e.Issued {
			for n := range is.Count {
				id := subjects.TrainGroup(is.First + uint64(n))
				if is.Kind == subjects.Eval {
					break
				}
				if issued[id] {
					t.Errorf("group %s issued twice", id)
				}
				issued[id] = true
			}
		}
		for _, v := range e.Verdicts {
			if before := closed[v.Group]; before != "" && !before.Trained() || batched[v.Group] {
				t.Errorf("group %s: %s after %s", v.Group, v.Outcome, before)
			}
			closed[v.Group] = v.Outcome
		}
		for _, b := range e.Batches {
			if b.Step != next {
				t.Fatalf("batch %d where %d is next", b.Step, next)
			}
			next++
			for _, g := range b.Groups {
				if batched[g.Group] || !closed[g.Group].Trained() || !issued[g.Group] {
					t.Errorf("group %s of batch %d: batched before %v, verdict %q", g.Group, b.Step, batched[g.Group], closed[g.Group])
				}
				batched[g.Group] = true
				slots := map[subjects.Slot]bool{}
				for _, m := range g.Members {
					slots[m.Slot] = true
				}
				if len(slots) != size {
					t.Errorf("group %s has %d slots", g.Group, len(slots))
				}
			}
		}
	}
	if int(next)-1 != steps {
		t.Errorf("%d batches, want %d", next-1, steps)
	}
}

func policy(steps int64) grouper.Config {
	return grouper.Config{Steps: steps, GroupSize: 4, GroupsPerBatch: 4, MaxStaleness: new(2), VersionWait: time.Millisecond,
		Evaluation: grouper.Evaluation{Every: 10, Tasks: 4}}
}

func TestRun_TrainsToItsLastStep(t *testing.T) {
	b := newBench(t, natstest.InProcess(t), policy(25))
	for _, fn := range []func(context.Context) error{b.producer, b.trainer, b.inspector, b.grouper} {
		defer b.start(fn)()
	}
	ledger := b.ledger()
	audit(t, ledger, 25, 4)
	rounds := 0
	for _, e := range ledger {
		rounds += len(e.Evals)
	}
	if end := ledger[len(ledger)-1].End; end != "complete" || rounds != 4 {
		t.Errorf("ended %q after %d evaluations; want complete after those of steps 0, 10, 20 and 25", end, rounds)
	}
}

func TestRun_TwoGroupersThatKeepCrashingWriteOneLedger(t *testing.T) {
	b := newBench(t, natstest.Loopback(t), policy(100))
	for _, fn := range []func(context.Context) error{b.producer, b.trainer, b.inspector} {
		defer b.start(fn)()
	}
	var crashes atomic.Int64
	for i := range 2 {
		cfg := b.cfg
		cfg.Writer = fmt.Sprint("w", i)
		defer b.start(func(ctx context.Context) error {
			for ctx.Err() == nil {
				// Lives get longer, or a slow machine would spend each of them reading the log.
				most := 60 + 2*int(crashes.Load())
				life, kill := context.WithTimeout(ctx, time.Duration(1+rand.IntN(most))*time.Millisecond)
				err := service.Run(life, cfg)
				ended := life.Err() == nil
				kill()
				if err != nil || ended {
					return err
				}
				crashes.Add(1)
			}
			return nil
		})()
	}
	ledger := b.ledger()
	audit(t, ledger, 100, 4)
	writers := map[string]int{}
	for _, e := range ledger {
		writers[e.Writer]++
	}
	t.Logf("%d entries by %v through %d crashes", len(ledger), writers, crashes.Load())
	if crashes.Load() == 0 {
		t.Error("no grouper crashed")
	}
}

// scenario publishes a fixed sequence of rollouts and commits, each when the
// grouper has settled, and returns the ledger.
func scenario(t *testing.T, crash bool) (ledger []subjects.Entry) {
	synctest.Test(t, func(t *testing.T) {
		cfg := policy(6)
		cfg.Inspect, cfg.Evaluation.Every = new(false), 0
		b := newBench(t, natstest.InProcess(t), cfg)
		p := bus.NewPublisher(b.conn, bus.PublisherConfig{Run: run, Producer: "p"})
		key, err := bus.LeaseKey(t.Context(), b.conn, run)
		if err != nil {
			t.Fatal(err)
		}
		stop := b.start(b.grouper)
		settle := func() {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if crash {
				stop()
				stop = b.start(b.grouper)
				time.Sleep(5 * time.Second)
				synctest.Wait()
			}
		}
		settle()
		for n := range 30 {
			for slot := range 4 {
				task := &subjects.Task{Kind: subjects.Train, Group: subjects.TrainGroup(uint64(n)), Slot: subjects.Slot(slot), Environment: "lake", Seed: int64(n)}
				task.Token = subjects.LeaseToken(key, task.Kind, task.Group, task.Slot, task.Attempt)
				if _, err := p.Publish(t.Context(), trajectory(task)); err != nil {
					t.Fatal(err)
				}
				settle()
			}
			if n%4 == 3 {
				if err := b.commit(t.Context(), subjects.Step(n/4+1)); err != nil {
					t.Fatal(err)
				}
				settle()
			}
			if n == 23 {
				break
			}
		}
		ledger = b.ledger()
		stop()
		_ = p.Close(t.Context())
		audit(t, ledger, 6, 4)
	})
	return ledger
}

func TestRun_KilledAfterEveryMessageWritesTheSameLedger(t *testing.T) {
	calm, killed := scenario(t, false), scenario(t, true)
	if len(calm) != len(killed) {
		t.Fatalf("%d entries, %d when killed", len(calm), len(killed))
	}
	for i := range calm {
		if a, b := text(t, calm[i]), text(t, killed[i]); a != b {
			t.Errorf("entry %d:\n%s\nwhen killed:\n%s", i+1, a, b)
		}
	}
}

// text is an entry without the clock, which goes on while a grouper is dead.
func text(t *testing.T, e subjects.Entry) string {
	e.At, e.State = 0, nil
	for i := range e.Verdicts {
		e.Verdicts[i].Opened, e.Verdicts[i].Closed = 0, 0
	}
	b, err := subjects.EncodeMessage(&e)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", b)
}
