package hostile

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	group "github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
	trainerbridge "github.com/headrace/headrace/trainer-bridge"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

const (
	run   = subjects.Run("besieged")
	steps = 6
	size  = 4 // of a group, and groups of a batch
	vocab = 1000
	limit = 2 * time.Minute
)

// world is a run with everything around the attacker.
type world struct {
	*testing.T
	server *bus.Server
	conn   *bus.Conn
	cfg    group.Config
	key    []byte
	ends   sync.WaitGroup

	mu     sync.Mutex
	gauges map[string]map[string]float64 // the last of each role
}

// policy trains on a fixed sequence of groups: one batch of them is open at a time.
func policy() grouper.Config {
	return grouper.Config{Steps: steps, GroupSize: size, GroupsPerBatch: size, MaxStaleness: new(0), VersionWait: time.Millisecond,
		ZeroVariance: grouper.PolicyKeep, Stale: grouper.PolicyKeep, SlotTimeout: time.Second, SlotRetries: new(8)}
}

func newWorld(t *testing.T, change func(*grouper.Config)) *world {
	t.Helper()
	server := natstest.Loopback(t)
	w := &world{T: t, server: server, conn: natstest.Connect(t, server), gauges: map[string]map[string]float64{}}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{RolloutBytes: 8 << 30}))
	var err error
	w.key, err = bus.LeaseKey(t.Context(), w.conn, run)
	w.must(err)
	data, err := dataset.Open(dataset.Config{}, 4, 1)
	w.must(err)
	g := policy()
	if change != nil {
		change(&g)
	}
	w.cfg = group.Config{Conn: w.conn, Run: run, Grouper: g, Dataset: data, Environment: "lake", Writer: "g", Log: zerolog.Nop(),
		Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8, Seed: 1}}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// start runs fn until ctx ends.
func (w *world) start(ctx context.Context, fn func(context.Context) error) {
	w.ends.Go(func() {
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			w.Error(err)
		}
	})
}

// outcome is what a run came to.
type outcome struct {
	batches []subjects.Batch
	end     string
	world   *world
	leased  map[string]bool // trajectories whose lease the attacker held
	heap    int             // MiB at the end, everything still there
}

// play runs it to its end, besieged by the attack (nil: by none), which has begun
// when it closes the channel, and ends with the run.
func (w *world) play(attack func(ctx context.Context, e *enemy, begun chan<- struct{}) error) *outcome {
	w.Helper()
	ctx, stop := context.WithTimeout(w.Context(), limit)
	defer w.ends.Wait()
	defer stop()
	w.start(ctx, w.listen)
	address := make(chan []string, 1)
	bridge := trainerbridge.Config{Conn: w.conn, Run: run, Listen: []string{"unix:" + filepath.Join(w.TempDir(), "f")}, Vocab: vocab, Inspect: true, Leased: true,
		MaxSegments: 4, Layout: layout.Config{Buckets: []int{64}, Rows: size * size, MaxRows: 4 * size * size}, Instance: "b", Log: zerolog.Nop(),
		DrainTimeout: time.Second, OnListen: func(a []string) { address <- a }}
	w.start(ctx, func(ctx context.Context) error { return trainerbridge.Run(ctx, bridge) })
	w.start(ctx, func(ctx context.Context) error { return group.Run(ctx, w.cfg) })
	e := &enemy{}
	if attack != nil {
		begun := make(chan struct{})
		e = &enemy{world: w, conn: natstest.Connect(w, w.server)}
		w.start(ctx, func(ctx context.Context) error { return attack(ctx, e, begun) })
		select {
		case <-begun:
		case <-ctx.Done():
			w.Fatal("the attack does not begin")
		}
	}
	for i := range 2 {
		conn := natstest.Connect(w, w.server)
		w.start(ctx, func(ctx context.Context) error { return w.honest(ctx, conn, fmt.Sprint("honest", i)) })
	}
	out := &outcome{world: w}
	out.end = w.train(ctx, (<-address)[0])
	out.batches = w.ledger(ctx)
	out.leased, out.heap = e.held(), heap()
	stop()
	w.ends.Wait()
	w.audit()
	return out
}

// audit derives what was decided once more, from the log alone, whatever the
// attacker left in it.
func (w *world) audit() {
	w.Helper()
	r, err := audit.Run(w.Context(), w.conn, run, audit.Options{Policy: &audit.Policy{Grouper: w.cfg.Grouper, Supply: grouper.Supply{Train: []uint64{0}}, Vocab: vocab, Key: w.key}})
	w.must(err)
	claimed := 0 // by the attacker, that it published
	for _, d := range r.Discrepancies {
		if d.Check == audit.CheckProducers && strings.HasPrefix(d.Text, "producer "+mallory) {
			claimed += d.Count
			continue
		}
		w.Errorf("audit: %+v", d)
	}
	if r.Lost != claimed || r.Duplicated+r.Mixed+r.Short+r.Wrong > 0 {
		w.Errorf("audit: %s", r.Verdict)
	}
}

// train takes every batch and commits it; it returns why there are no more.
func (w *world) train(ctx context.Context, address string) string {
	w.Helper()
	c, err := feed.Dial(ctx, address, feed.Hello{Client: "test"})
	w.must(err)
	defer context.AfterFunc(ctx, func() { _ = c.Abort() })()
	for {
		b, _, err := c.Next()
		var end *feed.EndError
		if errors.As(err, &end) {
			w.must(c.Close("done"))
			return end.Reason
		}
		w.must(err)
		w.must(c.Release(b))
		w.must(c.Commit(feed.Commit{Step: b.Step}))
	}
}

// honest leases tasks and plays them, four at a time.
func (w *world) honest(ctx context.Context, conn *bus.Conn, name string) error {
	leases, err := bus.Tasks(ctx, conn, run, zerolog.Nop())
	if err != nil {
		return err
	}
	defer func() { _ = leases.Close() }()
	p := bus.NewPublisher(conn, bus.PublisherConfig{Run: run, Producer: name})
	defer func() { _ = p.Close(ctx) }()
	slots, ctx := errgroup.WithContext(ctx)
	for range 4 {
		slots.Go(func() error {
			for {
				l, err := leases.Next(ctx)
				if err != nil {
					return err
				}
				if _, err := p.Publish(ctx, played(l.Task, name)); err != nil {
					return err
				}
				if err := l.Ack(ctx); err != nil {
					return err
				}
			}
		})
	}
	return slots.Wait()
}

// reward of an honest episode: what it is worth follows from its slot.
func reward(g subjects.GroupID, s subjects.Slot) float64 {
	return float64(subjects.Checksum([]byte(subjects.TrajectoryID(g, s, 0)))%16) / 16
}

// played is the honest trajectory of a task.
func played(t *subjects.Task, producer string) *subjects.Trajectory {
	tr := &subjects.Trajectory{Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Round: t.Round, Environment: t.Environment,
		Seed: t.Seed, Producer: producer, Tokenizer: "words", Sampling: t.Sampling, Status: subjects.Succeeded, Reward: reward(t.Group, t.Slot), Token: t.Token}
	s := subjects.Segment{Parent: -1, Versions: []subjects.VersionSpan{{Start: 8, End: 20}}, LossMask: []subjects.Span{{Start: 8, End: 20}}}
	for i := range int32(20) {
		if s.Tokens = append(s.Tokens, 1+i); i >= 8 {
			s.Logprobs = append(s.Logprobs, -0.5)
		}
	}
	tr.Segments = []subjects.Segment{s}
	return tr
}

// listen keeps the last gauges of every role.
func (w *world) listen(ctx context.Context) error {
	return bus.Follow(ctx, w.conn, run.StreamName(subjects.Telemetry), "", 1, func(m *bus.Msg) error {
		var g subjects.Gauges
		if err := subjects.DecodeMessage(m.Data, &g); err == nil && g.Role != "" && !subjects.IsSpans(m.Subject) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.gauges[g.Role] = g.Values
		}
		return nil
	})
}

// gauge is the last value that a role reported.
func (w *world) gauge(role, name string) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gauges[role][name]
}

// ledger reads the batches there are.
func (w *world) ledger(ctx context.Context) (out []subjects.Batch) {
	w.Helper()
	done := errors.New("done")
	err := bus.Follow(ctx, w.conn, run.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		if out = append(out, e.Batches...); e.End != "" {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		w.Fatal(err)
	}
	return out
}

// text is what a group came to: every slot's reward and advantage, not where
// its trajectories lie.
func text(g *subjects.BatchGroup) string {
	var b strings.Builder
	for _, m := range g.Members {
		fmt.Fprintf(&b, " %d:%.4f%+.6f(%s %d/%d)", m.Slot, m.Reward, m.Advantage, m.Status, m.Tokens, m.Segments)
	}
	return string(g.Group) + b.String()
}

// groups are the trained groups, by batch and order.
func (o *outcome) groups() (out []string) {
	for i := range o.batches {
		for k := range o.batches[i].Groups {
			out = append(out, fmt.Sprintf("step %d %s", o.batches[i].Step, text(&o.batches[i].Groups[k])))
		}
	}
	return out
}

// ended wants the run whole.
func (o *outcome) ended() {
	o.world.Helper()
	if want := int(o.world.cfg.Grouper.Steps); o.end != subjects.EndComplete || len(o.batches) != want {
		o.world.Errorf("ended %q after %d batches, want %d", o.end, len(o.batches), want)
	}
}

// untouched wants every batch as it is without the attacker.
func (o *outcome) untouched() {
	o.world.Helper()
	o.ended()
	want := expected()
	got := o.groups()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		o.world.Errorf("trained\n%s\nwithout the attacker\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// honestBut wants every member that is not the attacker's by its lease to be what
// an honest producer makes of it, and every group without one of them whole as it
// is without the attacker.
func (o *outcome) honestBut() {
	o.world.Helper()
	o.ended()
	own := 0
	for i := range o.batches {
		for k := range o.batches[i].Groups {
			g := &o.batches[i].Groups[k]
			mine := false
			for _, m := range g.Members {
				if o.leased[subjects.TrajectoryID(g.Group, m.Slot, m.Attempt)] {
					mine = true
					own++
				} else if m.Reward != reward(g.Group, m.Slot) || m.Tokens != 20 {
					o.world.Errorf("%s/%d/%d is trained with reward %v and %d tokens: not what was played, and not leased by the attacker", g.Group, m.Slot, m.Attempt, m.Reward, m.Tokens)
				}
			}
			if whole := honestGroup(g.Group); !mine && text(g) != whole {
				o.world.Errorf("trained %s, without the attacker %s", text(g), whole)
			}
		}
	}
	o.world.Logf("%d trained trajectories are of leases that the attacker held", own)
}

// honestGroup is what honest producers make of a group.
func honestGroup(id subjects.GroupID) string {
	g := subjects.BatchGroup{Group: id}
	sum, squares := 0.0, 0.0
	for s := range subjects.Slot(size) {
		r := reward(id, s)
		g.Members = append(g.Members, subjects.Member{Slot: s, Reward: r, Status: subjects.Succeeded, Tokens: 20, Segments: 1})
		sum += r
	}
	for _, m := range g.Members {
		squares += (m.Reward - sum/size) * (m.Reward - sum/size)
	}
	for i := range g.Members {
		g.Members[i].Advantage = (g.Members[i].Reward - sum/size) / (math.Sqrt(squares/(size-1)) + 1e-6)
	}
	return text(&g)
}

// expected are the batches of a run that nobody attacks: TestRun_Calm holds the
// real services to it.
func expected() (out []string) {
	for n := range steps * size {
		out = append(out, fmt.Sprintf("step %d %s", n/size+1, honestGroup(subjects.TrainGroup(uint64(n)))))
	}
	return out
}

// heap is what the process holds, in MiB.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc >> 20)
}

// letters reads the headers of the dead letters there are.
func (w *world) letters() (out []nats.Header) {
	w.Helper()
	stream, err := w.conn.JS().Stream(w.Context(), run.StreamName(subjects.DeadLetter))
	w.must(err)
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		m, err := stream.GetMsg(w.Context(), seq)
		w.must(err)
		out = append(out, m.Header)
	}
	return out
}
