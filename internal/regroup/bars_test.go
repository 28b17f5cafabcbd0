package regroup_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/regroup"
	"github.com/headrace/headrace/subjects"
)

// hard is a run in which something happens that a ledger must stand.
type hard struct {
	name    string
	change  func(*grouper.Config)
	payload int32 // the server's largest message; 0: as it comes
	// crashAt kills the grouper once the ledger has the batch of this step; another
	// one goes on.
	crashAt subjects.Step
	train   func(*world, context.Context) error
	produce func(*world, context.Context) error
	wants   func(*regroup.Report, *events) bool
}

// events count what a ledger and the trainer said.
type events struct{ retries, evals, states, resumed, environments, writers int }

// TestRun_OwnPolicyGivesTheLedgerOfHardRuns: crashes of the grouper, a trainer that
// goes back, several environments, groups from outside, bodies in parts; every
// entry byte for byte, states included.
func TestRun_OwnPolicyGivesTheLedgerOfHardRuns(t *testing.T) {
	for _, h := range []hard{
		{name: "crashes", crashAt: 5, change: func(c *grouper.Config) { c.StateBytes = 3000 },
			wants: func(_ *regroup.Report, e *events) bool { return e.states > 2 && e.writers == 2 && e.retries > 0 }},
		{name: "trainer-goes-back", train: (*world).trainAndGoBack,
			wants: func(_ *regroup.Report, e *events) bool { return e.resumed == 2 }},
		{name: "evaluations", change: func(c *grouper.Config) { c.Evaluation = grouper.Evaluation{Every: 1, Tasks: 6, Samples: 2} },
			wants: func(_ *regroup.Report, e *events) bool { return e.evals == 13 }},
		{name: "mix", change: func(c *grouper.Config) {
			c.Environments = []grouper.Environment{{Name: "lake", Weight: 2, MinShare: 0.3}, {Name: "sums"}}
		}, wants: func(_ *regroup.Report, e *events) bool { return e.environments == 2 }},
		{name: "external", change: func(c *grouper.Config) { c.Source, c.Evaluation = grouper.SourceExternal, grouper.Evaluation{} },
			produce: (*world).produceOutside,
			wants:   func(r *regroup.Report, _ *events) bool { return r.Recorded.Trained == 36 }},
		{name: "parts", payload: 64 << 10, produce: (*world).produceLarge,
			wants: func(r *regroup.Report, _ *events) bool { return r.Recorded.Tokens > 100_000 }},
	} {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			w := h.played(t)
			r, e := w.regroup(w.cfg), w.events()
			if !r.Own || !r.Sound || r.Entries == 0 || r.Same != r.Entries || r.Recorded.Digest != r.Regrouped.Digest {
				t.Errorf("not the ledger: %s", text(r))
			}
			if r.Recorded.Steps != 12 || !h.wants(r, e) {
				t.Errorf("a run of another kind: %+v, %s", *e, text(r))
			}
		})
	}
}

// played plays the run to its end.
func (h hard) played(t testing.TB) *world {
	w := &world{TB: t, run: subjects.Run(h.name), cfg: policy()}
	w.conn = natstest.Connect(t, natstest.Start(t, bus.ServerOptions{Sync: "10m", MaxPayload: h.payload}))
	if h.change != nil {
		h.change(&w.cfg)
	}
	w.must(bus.EnsureStreams(t.Context(), w.conn, w.run, subjects.StreamOptions{RolloutBytes: 1 << 28}))
	var err error
	if w.cfg.Source != grouper.SourceExternal {
		w.key, err = bus.LeaseKey(t.Context(), w.conn, w.run)
		w.must(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	train, produce := h.train, h.produce
	if train == nil {
		train = (*world).train
	}
	if produce == nil {
		produce = (*world).produce
	}
	for _, role := range []func(*world, context.Context) error{train, (*world).inspect, produce} {
		wg.Go(func() {
			if err := role(w, ctx); err != nil && ctx.Err() == nil {
				w.Error(err)
			}
		})
	}
	if h.crashAt > 0 {
		w.crash(ctx, h.crashAt)
	}
	w.must(w.group(ctx, "b"))
	cancel()
	wg.Wait()
	w.must(w.roles().InspectAll(t.Context(), vocab))
	return w
}

// group is the grouper as a process.
func (w *world) group(ctx context.Context, writer string) error {
	data, err := dataset.Open(dataset.Config{}, 6, 1)
	if err != nil {
		return err
	}
	c := service.Config{Conn: w.conn, Run: w.run, Grouper: w.cfg, Dataset: data, Environment: "lake",
		Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8, Seed: 1}, Writer: writer, Log: zerolog.Nop()}
	for range w.cfg.Environments {
		c.Mix = append(c.Mix, data)
	}
	return service.Run(ctx, c)
}

// crash has a grouper until the batch of a step is cut.
func (w *world) crash(ctx context.Context, at subjects.Step) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		_ = w.entries(ctx, func(e *subjects.Entry) {
			for i := range e.Batches {
				if e.Batches[i].Step >= at {
					cancel()
				}
			}
		})
	})
	w.must(w.group(ctx, "a"))
}

// entries follows the ledger.
func (w *world) entries(ctx context.Context, fn func(*subjects.Entry)) error {
	return bus.Follow(ctx, w.conn, w.run.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		fn(&e)
		return nil
	})
}

var errRead = errors.New("read")

// events counts what happened.
func (w *world) events() *events {
	out, envs, writers := &events{}, map[string]bool{}, map[string]bool{}
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	_ = w.entries(ctx, func(e *subjects.Entry) {
		out.retries, out.evals = out.retries+len(e.Retries), out.evals+len(e.Evals)
		writers[e.Writer] = true
		if len(e.State) > 0 {
			out.states++
		}
		for i := range e.Batches {
			for k := range e.Batches[i].Groups {
				envs[e.Batches[i].Groups[k].Environment] = true
			}
		}
		if e.End != "" {
			cancel()
		}
	})
	state, err := bus.StreamState(w.Context(), w.conn, w.run, subjects.Weights)
	w.must(err)
	err = bus.Follow(w.Context(), w.conn, w.run.StreamName(subjects.Weights), "", 1, func(m *bus.Msg) error {
		if m.Subject == w.run.WeightsSubject(subjects.EventResumed) {
			out.resumed++
		}
		if m.Seq >= state.LastSeq {
			return errRead
		}
		return nil
	})
	if !errors.Is(err, errRead) {
		w.Fatal(err)
	}
	out.environments, out.writers = len(envs), len(writers)
	return out
}

// trainAndGoBack trains, dies behind step 7, and comes back from the checkpoint of step 4.
func (w *world) trainAndGoBack(ctx context.Context) error {
	life := 1
	say := func(kind subjects.WeightsEvent, step subjects.Step, e any) error {
		data, err := subjects.EncodeMessage(e)
		if err == nil {
			_, err = bus.Send(ctx, w.conn, w.run.WeightsSubject(kind), fmt.Sprintf("%s/%d/%d", kind, life, step), nil, data)
		}
		return err
	}
	commit := func(step subjects.Step) error {
		return say(subjects.EventCommit, step, &subjects.CommitEvent{V: 1, Step: step, Incarnation: life})
	}
	err := say(subjects.EventResumed, 0, &subjects.ResumedEvent{V: 1, Incarnation: life})
	if err != nil {
		return err
	}
	var failed error
	err = w.entries(ctx, func(e *subjects.Entry) {
		for i := range e.Batches {
			step := e.Batches[i].Step
			failed = errors.Join(failed, commit(step))
			if step == 4 {
				failed = errors.Join(failed, say(subjects.EventCheckpoint, 4, &subjects.CheckpointEvent{V: 1, Step: 4, Incarnation: life}))
			}
			if step == 7 {
				life = 2
				failed = errors.Join(failed, say(subjects.EventResumed, 4, &subjects.ResumedEvent{V: 1, Step: 4, Incarnation: life}))
				for again := subjects.Step(5); again <= 7; again++ {
					failed = errors.Join(failed, commit(again))
				}
			}
		}
	})
	return errors.Join(failed, err)
}

// produceOutside publishes groups that nobody asked for, some of them whole later
// than others, some twice.
func (w *world) produceOutside(ctx context.Context) error {
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: w.run, Producer: "p1"})
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
	for n := range 80 {
		for slot := range 5 {
			group := n - slot%2 // two are open at a time
			if group < 0 {
				continue
			}
			t := &subjects.Task{Kind: subjects.Train, Group: subjects.GroupID(fmt.Sprintf("x-%d", group)), Slot: subjects.Slot(slot % 4),
				Environment: "lake", Seed: int64(group), Sampling: subjects.Sampling{Temperature: 1}}
			if _, err := p.Publish(ctx, episode(t)); err != nil {
				return err
			}
		}
		for slot := range 4 {
			t := &subjects.Task{Kind: subjects.Train, Group: subjects.GroupID(fmt.Sprintf("y-%d", n)), Slot: subjects.Slot(slot), Environment: "lake",
				Attempt: 1, Seed: int64(n), Sampling: subjects.Sampling{Temperature: 1}}
			if _, err := p.Publish(ctx, episode(t)); err != nil {
				return err
			}
		}
	}
	return nil
}

// produceLarge plays tasks, every third with a body that travels in parts.
func (w *world) produceLarge(ctx context.Context) error {
	leases, err := bus.Tasks(ctx, w.conn, w.run, zerolog.Nop())
	if err != nil {
		return err
	}
	defer func() { _ = leases.Close() }()
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: w.run, Producer: "p1"})
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
	for n := 0; ; n++ {
		l, err := leases.Next(ctx)
		if err != nil {
			return err
		}
		t := episode(l.Task)
		if n%3 == 0 && len(t.Segments) > 0 {
			s := &t.Segments[0]
			s.Tokens = append(s.Tokens, make([]int32, 40_000)...)
		}
		if _, err := p.Publish(ctx, t); err != nil {
			return errors.Join(err, l.Nak(0))
		}
		if err := l.Ack(ctx); err != nil {
			return err
		}
	}
}

// own is the run's policy.
func (w *world) own() *audit.Policy {
	return &audit.Policy{Grouper: w.cfg, Supply: grouper.Supply{Train: make([]uint64, max(1, len(w.cfg.Environments)))}, Vocab: vocab, Key: w.key}
}
