package regroup_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/regroup"
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
}

func policy() grouper.Config {
	return grouper.Config{Steps: 12, GroupSize: 4, GroupsPerBatch: 3, MaxStaleness: new(2), VersionWait: time.Millisecond,
		Evaluation: grouper.Evaluation{Every: 4, Tasks: 4}}
}

// played is a run that has come to its end.
func played(t testing.TB, run subjects.Run, cfg grouper.Config) *world {
	w := &world{TB: t, conn: natstest.Connect(t, natstest.Loopback(t)), run: run, cfg: cfg}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{RolloutBytes: 1 << 28}))
	var err error
	w.key, err = bus.LeaseKey(t.Context(), w.conn, run)
	w.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, role := range []func(context.Context) error{w.train, w.inspect, w.produce} {
		wg.Go(func() {
			if err := role(ctx); err != nil && ctx.Err() == nil {
				w.Error(err)
			}
		})
	}
	data, err := dataset.Open(dataset.Config{}, 4, 1)
	w.must(err)
	w.must(service.Run(ctx, service.Config{Conn: w.conn, Run: run, Grouper: cfg, Dataset: data, Environment: "lake",
		Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8, Seed: 1}, Writer: "a", Log: zerolog.Nop()}))
	cancel()
	wg.Wait()
	w.must(w.roles().InspectAll(t.Context(), vocab))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) roles() roletest.Run { return roletest.Run{Conn: w.conn, Name: w.run} }

func (w *world) produce(ctx context.Context) error {
	return w.roles().Produce(ctx, roletest.Producer{Slots: 8, Play: episode})
}

// episode fails at the first attempt now and then, and has a body that no
// inspector takes now and then; every seventh group's rewards are all equal.
func episode(t *subjects.Task) *subjects.Trajectory {
	tr := &subjects.Trajectory{Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Round: t.Round, Environment: t.Environment,
		Seed: t.Seed, Producer: "p1", Tokenizer: "bytes", Sampling: t.Sampling, Status: subjects.Succeeded, Token: t.Token,
		Reward: float64((int(t.Slot)*7+int(t.Seed))%3) / 2}
	if t.Seed%7 == 0 {
		tr.Reward = 1
	}
	n := int(t.Seed)*31 + int(t.Slot)*7
	if n%9 == 0 && t.Attempt == 0 {
		tr.Status, tr.Reward, tr.Reason = subjects.Failed, 0, "engine"
		return tr
	}
	s := subjects.Segment{Parent: -1, Versions: []subjects.VersionSpan{{Start: 10, End: 30, Version: 1 << 20}}, LossMask: []subjects.Span{{Start: 10, End: 30}}}
	for i := range int32(30) {
		s.Tokens = append(s.Tokens, (i*int32(t.Slot)+i)%vocab) //nolint:gosec // small
		if i >= 10 {
			s.Logprobs = append(s.Logprobs, -float32(i)/40)
		}
	}
	if n%23 == 0 && t.Attempt == 0 {
		s.Logprobs[3] = 2 // of a probability above 1
	}
	tr.Segments = []subjects.Segment{s}
	return tr
}

func (w *world) train(ctx context.Context) error { return w.roles().Train(ctx, nil) }

func (w *world) inspect(ctx context.Context) error { return w.roles().Inspect(ctx, vocab) }

// regroup groups the run by another policy.
func (w *world) regroup(cfg grouper.Config) *regroup.Report {
	w.Helper()
	r, err := regroup.Run(w.Context(), w.conn, w.run, regroup.Options{Policy: cfg, Own: w.own()})
	w.must(err)
	return r
}
