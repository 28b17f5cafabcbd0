package watchtest

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
	"github.com/headrace/headrace/internal/roletest"
	"github.com/headrace/headrace/subjects"
)

// steps of the run, and tokens of a vocabulary that is as large as it must be.
const (
	steps = 40
	vocab = 256
)

// world is a run whose ledger does not depend on who is faster: one episode is
// played at a time, and producer and trainer take turns.
type world struct {
	testing.TB
	conn *bus.Conn // of the run's roles
	look *bus.Conn // of those who look at it
	run  subjects.Run
	cfg  grouper.Config
}

func newWorld(t testing.TB, run subjects.Run) *world {
	server := natstest.Loopback(t)
	w := &world{TB: t, conn: natstest.Connect(t, server), look: natstest.Connect(t, server), run: run}
	w.cfg = grouper.Config{Steps: steps, GroupSize: 4, GroupsPerBatch: 3, MaxStaleness: new(0), VersionWait: time.Millisecond}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{RolloutBytes: 1 << 28}))
	record := &subjects.RunRecord{V: 1, Run: run, Schema: subjects.SchemaVersion, Recipe: []byte(`{"name":"watched","environment":{"name":"frozenlake"},` +
		`"grouper":{"group_size":4,"groups_per_batch":3,"max_staleness":0,"version_wait":"1ms"},"trainer":{"steps":40}}`)}
	w.must(bus.CreateRun(t.Context(), w.conn, record))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// play plays the run to its end, with the readers beside it.
func (w *world) play(readers ...func(context.Context) error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, role := range append([]func(context.Context) error{w.train, w.inspect, w.produce}, readers...) {
		wg.Go(func() {
			if err := role(ctx); err != nil && ctx.Err() == nil {
				w.Error(err)
			}
		})
	}
	data, err := dataset.Open(dataset.Config{}, 0, 1)
	w.must(err)
	w.must(service.Run(ctx, service.Config{Conn: w.conn, Run: w.run, Grouper: w.cfg, Dataset: data, Environment: "frozenlake",
		Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8, Seed: 1}, Writer: "g", Log: zerolog.Nop()}))
}

// produce plays one episode after the other.
func (w *world) produce(ctx context.Context) error {
	return w.roles().Produce(ctx, roletest.Producer{Slots: 1, Play: episode})
}

// episode follows from its task: some fail once, and the rewards of every fifth
// group are all equal.
func episode(t *subjects.Task) *subjects.Trajectory {
	tr := &subjects.Trajectory{Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Round: t.Round, Environment: t.Environment, Seed: t.Seed,
		Producer: "p1", Tokenizer: "bytes", Sampling: t.Sampling, Status: subjects.Succeeded, Token: t.Token, Reward: float64((int64(t.Slot)*7+t.Seed)%3) / 2,
		Messages: []subjects.Message{{Role: "user", Content: "left or right?"}, {Role: "assistant", Content: "right"}}}
	if t.Seed%5 == 0 {
		tr.Reward = 1
	}
	if (t.Seed*31+int64(t.Slot)*7)%11 == 0 && t.Attempt == 0 {
		tr.Status, tr.Reward, tr.Reason = subjects.Failed, 0, "engine"
		return tr
	}
	s := subjects.Segment{Parent: -1, Versions: []subjects.VersionSpan{{Start: 40, End: 400, Version: 1 << 20}}, LossMask: []subjects.Span{{Start: 40, End: 400}}}
	for i := range int32(400) {
		s.Tokens = append(s.Tokens, (i*int32(t.Slot)+i)%vocab) //nolint:gosec // small
		if i >= 40 {
			s.Logprobs = append(s.Logprobs, -float32(i)/400)
		}
	}
	tr.Segments = []subjects.Segment{s}
	return tr
}

func (w *world) roles() roletest.Run { return roletest.Run{Conn: w.conn, Name: w.run} }

func (w *world) train(ctx context.Context) error { return w.roles().Train(ctx, nil) }

func (w *world) inspect(ctx context.Context) error { return w.roles().Inspect(ctx, vocab) }
