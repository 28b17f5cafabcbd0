package retentiontest

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
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
	trainerbridge "github.com/headrace/headrace/trainer-bridge"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

const (
	run    = subjects.Run("kept")
	vocab  = 100
	tokens = 600
	limit  = 2 << 20 // of ROLLOUTS: some 400 trajectories
)

// world is a run with a small ROLLOUTS.
type world struct {
	*testing.T
	ctx     context.Context
	conn    *bus.Conn
	cfg     grouper.Config
	key     []byte
	address string
	// parts of bodies, when set, makes every n-th trajectory travel in parts.
	large int
	stops []func()

	mu        sync.Mutex
	published int
	blocked   bool
	digests   map[subjects.Step]string
}

func newWorld(t *testing.T, o bus.ServerOptions, steps int64) *world {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	o.Sync = "10m"
	w := &world{T: t, ctx: ctx, conn: natstest.Connect(t, natstest.Start(t, o)), address: "unix:" + filepath.Join(t.TempDir(), "f"), digests: map[subjects.Step]string{},
		cfg: grouper.Config{Steps: steps, GroupSize: 4, GroupsPerBatch: 4, MaxStaleness: new(1), VersionWait: time.Millisecond, StateBytes: limit / 16}}
	w.must(bus.EnsureStreams(ctx, w.conn, run, subjects.StreamOptions{RolloutBytes: limit}))
	var err error
	w.key, err = bus.LeaseKey(ctx, w.conn, run)
	w.must(err)
	t.Cleanup(w.end)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// start runs a role until stop, which waits for it.
func (w *world) start(fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			w.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.stops = append(w.stops, stop)
	return stop
}

func (w *world) end() {
	for i := len(w.stops) - 1; i >= 0; i-- {
		w.stops[i]()
	}
}

func (w *world) group(ctx context.Context) error {
	data, err := dataset.Open(dataset.Config{}, 0, 1)
	if err != nil {
		return err
	}
	return service.Run(ctx, service.Config{Conn: w.conn, Run: run, Grouper: w.cfg, Dataset: data, Environment: "lake",
		Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8, Seed: 1}, Writer: "a", Log: zerolog.Nop(), Standby: 20 * time.Millisecond})
}

// bridge runs a bridge with a retention, and with next to no cache, so that
// bodies come from the log.
func (w *world) bridge(keep trainerbridge.Retention) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		return trainerbridge.Run(ctx, trainerbridge.Config{Conn: w.conn, Run: run, Listen: []string{w.address}, Vocab: vocab, Inspect: true, Leased: true,
			Layout: layout.Config{Buckets: []int{1024}, Rows: 16, MaxRows: 64}, Retention: keep, CacheBytes: 1 << 10, Log: zerolog.New(zerolog.NewTestWriter(w.T)).Level(zerolog.WarnLevel), DrainTimeout: time.Second})
	}
}

// produce plays with eight slots.
func (w *world) produce(ctx context.Context) error {
	return roletest.Run{Conn: w.conn, Name: run}.Produce(ctx, roletest.Producer{Slots: 8, Play: w.episode,
		Published: func(_ context.Context, p *bus.Publisher, _ *subjects.Trajectory) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.published++
			w.blocked = w.blocked || p.Stats().Full > 0
			return nil
		}})
}

func (w *world) episode(t *subjects.Task) *subjects.Trajectory {
	tr := &subjects.Trajectory{Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Environment: t.Environment, Seed: t.Seed, Producer: "p1",
		Tokenizer: "bytes", Sampling: t.Sampling, Status: subjects.Succeeded, Token: t.Token, Reward: float64(t.Slot) / 2}
	s := subjects.Segment{Parent: -1, Versions: []subjects.VersionSpan{{Start: 10, End: tokens, Version: 1 << 20}}, LossMask: []subjects.Span{{Start: 10, End: tokens}}}
	for i := range int32(tokens) {
		s.Tokens = append(s.Tokens, int32(uint32(int64(i)*int64(t.Slot)+int64(i)+t.Seed)%vocab))
		if i >= 10 {
			s.Logprobs = append(s.Logprobs, -float32(i)/1000)
		}
	}
	tr.Segments = []subjects.Segment{s}
	if w.large > 0 && (int(t.Seed)+int(t.Slot))%w.large == 0 {
		tr.Messages = []subjects.Message{{Role: "user", Content: string(make([]byte, 40<<10))}}
	}
	return tr
}

// train dials the bridge with a checkpoint and trains up to a step, with a
// checkpoint after every n-th; every batch that was seen before must be the same.
func (w *world) train(checkpoint, to, every subjects.Step) *feed.Client {
	w.Helper()
	var c *feed.Client
	for {
		var err error
		if c, err = feed.Dial(w.ctx, w.address, feed.Hello{Client: "test", CheckpointStep: &checkpoint}); err == nil {
			break
		}
		w.must(w.ctx.Err())
	}
	w.steps(c, checkpoint+1, to, every)
	return c
}

// steps trains on from an open feed.
func (w *world) steps(c *feed.Client, from, to, every subjects.Step) {
	w.Helper()
	for step := from; step <= to; step++ {
		b, _, err := c.Next()
		w.must(err)
		if b.Step != step {
			w.Fatalf("step %d came, %d was due", b.Step, step)
		}
		if before := w.digests[step]; before != "" && before != b.Digest {
			w.Errorf("step %d is another batch than before", step)
		}
		w.digests[step] = b.Digest
		w.must(errors.Join(c.Release(b), c.Commit(feed.Commit{Step: step})))
		if step%every == 0 {
			w.must(c.Checkpointed(feed.Checkpointed{Step: step, Path: strconv.Itoa(int(step))}))
		}
	}
}

// until waits for something to become true of the run's stream of trajectories.
func (w *world) until(what string, ok func(bytes, first, last uint64) bool) {
	w.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := bus.StreamState(w.ctx, w.conn, run, subjects.Rollouts)
		w.must(err)
		if ok(s.Bytes, s.FirstSeq, s.LastSeq) {
			return
		}
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.Fatalf("waited for %s: %+v", what, s)
		}
	}
}

func (w *world) audit() *audit.Report {
	w.Helper()
	cfg := w.cfg
	cfg.StateBytes = 0
	r, err := audit.Run(w.ctx, w.conn, run, audit.Options{Policy: &audit.Policy{Grouper: cfg, Supply: grouper.Supply{Train: []uint64{0}}, Vocab: vocab, Key: w.key}})
	w.must(err)
	return r
}
