package audit_test

import (
	"context"
	"math/rand/v2"
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
	"github.com/headrace/headrace/internal/roletest"
	"github.com/headrace/headrace/subjects"
)

const vocab = 100

// world is a run on a real server, played to its end by the real grouper and
// publisher; the test plays the inspector and the trainer.
type world struct {
	testing.TB
	conn *bus.Conn
	run  subjects.Run
	cfg  grouper.Config
	key  []byte
	// spoil may change a trajectory before it is published; malformed ones are
	// dead-lettered by the inspector.
	spoil func(*subjects.Trajectory)
	// lives, when set, is how long a grouper and a producer live on average; there
	// are two of the one, and the other comes back under its name.
	lives  time.Duration
	tokens int32 // of an episode; default 30
	again  bool  // every fifth trajectory is published twice, the second time alone
}

func policy(steps int64) grouper.Config {
	return grouper.Config{Steps: steps, GroupSize: 4, GroupsPerBatch: 3, MaxStaleness: new(2), VersionWait: time.Millisecond,
		Evaluation: grouper.Evaluation{Every: 4, Tasks: 4}}
}

func newWorld(t testing.TB, srv *bus.Server, run subjects.Run, cfg grouper.Config) *world {
	w := &world{TB: t, conn: natstest.Connect(t, srv), run: run, cfg: cfg}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{RolloutBytes: 1 << 28}))
	var err error
	w.key, err = bus.LeaseKey(t.Context(), w.conn, run)
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// play plays the run to its end.
func (w *world) play() *world {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	start := func(fn func(context.Context) error) {
		wg.Go(func() {
			if err := fn(ctx); err != nil && ctx.Err() == nil {
				w.Error(err)
			}
		})
	}
	start(w.train)
	start(w.inspect)
	start(w.mortal(w.produce))
	group := w.mortal(w.group("a"))
	if w.lives > 0 {
		start(w.mortal(w.group("b")))
	}
	w.must(group(ctx))
	w.must(ctx.Err())
	cancel()
	wg.Wait()
	w.must(w.roles().InspectAll(w.Context(), vocab)) // a bridge inspects to the end
	return w
}

// group is a grouper; it returns at the end of the run.
func (w *world) group(writer string) func(ctx context.Context) error {
	data, err := dataset.Open(dataset.Config{}, 4, 1)
	w.must(err)
	return func(ctx context.Context) error {
		return service.Run(ctx, service.Config{Conn: w.conn, Run: w.run, Grouper: w.cfg, Dataset: data, Environment: "lake",
			Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8, Seed: 1}, Writer: writer, Log: zerolog.Nop(), Standby: 20 * time.Millisecond})
	}
}

// mortal starts a role again whenever its life is over, until it returns by itself.
func (w *world) mortal(fn func(context.Context) error) func(context.Context) error {
	if w.lives == 0 {
		return fn
	}
	return func(ctx context.Context) error {
		for lives := w.lives; ; lives += lives / 4 {
			life, kill := context.WithTimeout(ctx, lives/2+rand.N(lives))
			err := fn(life)
			over := life.Err() != nil
			kill()
			if ctx.Err() != nil || !over {
				return err
			}
		}
	}
}

func (w *world) roles() roletest.Run { return roletest.Run{Conn: w.conn, Name: w.run} }

// produce plays tasks with eight slots. Every ninth first attempt fails.
func (w *world) produce(ctx context.Context) error {
	return w.roles().Produce(ctx, roletest.Producer{Slots: 8,
		Play: func(task *subjects.Task) *subjects.Trajectory {
			t := episode(task, max(w.tokens, 30))
			if w.spoil != nil {
				w.spoil(t)
			}
			return t
		},
		Published: func(ctx context.Context, _ *bus.Publisher, t *subjects.Trajectory) error {
			if !w.again || int(t.Seed)%5 != 0 {
				return nil
			}
			return w.republish(ctx, t)
		}})
}

// republish publishes a trajectory again under another message id, as a bundle
// that was lost on the way and is sent in other company.
func (w *world) republish(ctx context.Context, t *subjects.Trajectory) error {
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: w.run, Producer: "p2"})
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
	other := *t
	other.Attempt, other.Token = t.Attempt+1, subjects.LeaseToken(w.key, t.Kind, t.Group, t.Slot, t.Attempt+1)
	_, err := p.Publish(ctx, &other)
	return err
}

func episode(t *subjects.Task, tokens int32) *subjects.Trajectory {
	tr := &subjects.Trajectory{Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Round: t.Round, Environment: t.Environment,
		Seed: t.Seed, Producer: "p1", Tokenizer: "bytes", Sampling: t.Sampling, Status: subjects.Succeeded, Token: t.Token,
		Reward: float64((int(t.Slot)*7+int(t.Seed))%3) / 2}
	if (int(t.Seed)+int(t.Slot))%9 == 0 && t.Attempt == 0 {
		tr.Status, tr.Reward, tr.Reason = subjects.Failed, 0, "engine"
		return tr
	}
	s := subjects.Segment{Parent: -1, Versions: []subjects.VersionSpan{{Start: 10, End: tokens, Version: 1 << 20}}, LossMask: []subjects.Span{{Start: 10, End: tokens}}}
	for i := range tokens {
		s.Tokens = append(s.Tokens, (i*int32(t.Slot)+i)%vocab)
		if i >= 10 {
			s.Logprobs = append(s.Logprobs, -float32(i)/40)
		}
	}
	tr.Segments = []subjects.Segment{s}
	return tr
}

// train commits every batch, with a checkpoint every second step.
func (w *world) train(ctx context.Context) error {
	return w.roles().Train(ctx, func(ctx context.Context, step subjects.Step) error {
		if step%2 != 0 {
			return nil
		}
		return w.roles().Say(ctx, subjects.EventCheckpoint, step, &subjects.CheckpointEvent{V: 1, Step: step, Incarnation: 1})
	})
}

func (w *world) inspect(ctx context.Context) error { return w.roles().Inspect(ctx, vocab) }

// audit audits the run.
func (w *world) audit() *audit.Report {
	w.Helper()
	r, err := audit.Run(w.Context(), w.conn, w.run, audit.Options{Policy: w.policy()})
	w.must(err)
	return r
}

func (w *world) policy() *audit.Policy {
	return &audit.Policy{Grouper: w.cfg, Supply: grouper.Supply{Train: []uint64{0}}, Vocab: vocab, Key: w.key}
}
