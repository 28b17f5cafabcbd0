package app

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

const malformedRecipe = `name: lake
environment: {name: frozenlake}
dataset: {eval_seeds: {first: 0, count: 1}}
grouper: {group_size: 4, groups_per_batch: 1, max_staleness: 1, zero_variance: keep, evaluation: {every: 0}}
bridge: {buckets: [160]}
model: {max_context: 160}
trainer: {steps: 8}
`

// spoilt are ways in which a trajectory is not what it should be: each changes
// the trajectory, its encoded body or the index entry.
var spoilt = []struct {
	name  string
	value func(*subjects.Trajectory)
	body  func([]byte) []byte
	entry func(*subjects.IndexEntry)
}{
	{name: "wrong types", body: func(b []byte) []byte { return bytes.Repeat([]byte{0xc1}, len(b)) }},
	{name: "unequal lengths", value: func(t *subjects.Trajectory) { t.Segments[0].Logprobs = t.Segments[0].Logprobs[1:] }},
	{name: "NaN", value: func(t *subjects.Trajectory) { t.Segments[0].Logprobs[0] = float32(math.NaN()) }},
	{name: "id out of the vocabulary", value: func(t *subjects.Trajectory) { t.Segments[0].Tokens[0] = 1 << 20 }},
	{name: "absurd size", body: func([]byte) []byte { return []byte{0xdd, 0xff, 0xff, 0xff, 0xff, 1} }},
	{name: "unknown version", body: func(b []byte) []byte { return bytes.Replace(b, []byte("\xa1v\x01"), []byte("\xa1v\x7f"), 1) }},
	{name: "cut short", body: func(b []byte) []byte { return b[:len(b)/2] }},
	{name: "index entry that lies", entry: func(e *subjects.IndexEntry) { e.Reward = 100 }},
}

// TestRun_MalformedTrajectoriesAreReplacedAndNothingElseNotices plays a run
// whose every group has a slot that comes malformed first, in one bundle with
// its neighbours: the slot is played again, the neighbours are used, and the
// original bytes are in DEADLETTER.
func TestRun_MalformedTrajectoriesAreReplacedAndNothingElseNotices(t *testing.T) {
	m, ctx := newMember(t, malformedRecipe), limited(t)
	dir, err := os.MkdirTemp("", "hr") // socket paths are short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := "unix:" + filepath.Join(dir, "feed")
	s := parts(t)
	s.start("grouper", func(ctx context.Context) error { return m.group(ctx, "test") })
	s.start("bridge", func(ctx context.Context) error {
		return m.bridge(ctx, BridgeOptions{Listen: []string{socket}, Weights: dir, Checkpoints: dir})
	})
	f := &forger{t: t, m: m, groups: map[subjects.GroupID][]*bus.Lease{}, spoilt: map[subjects.GroupID][]byte{}}
	s.start("producer", f.run)

	trainAll(ctx, t, socket, len(spoilt))
	letters := deadLetters(ctx, t, m)
	trained := map[subjects.GroupID][]subjects.Member{}
	err = entries(ctx, m.conn, m.run, func(_ uint64, e *subjects.Entry) {
		for _, b := range e.Batches {
			for _, g := range b.Groups {
				trained[g.Group] = g.Members
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range spoilt {
		group := subjects.TrainGroup(uint64(i))
		members := trained[group]
		if len(members) != 4 {
			t.Errorf("%s: group %s was trained with %d members", kind.name, group, len(members))
			continue
		}
		for _, member := range members {
			if want := member.Slot == 1; (member.Attempt > 0) != want {
				t.Errorf("%s: slot %d is attempt %d", kind.name, member.Slot, member.Attempt)
			}
		}
		if body := letters[string(group)+"/1/0"]; body == nil || !bytes.Contains(body, f.spoilt[group]) {
			t.Errorf("%s: the original bytes are not in DEADLETTER", kind.name)
		}
	}
	if len(letters) < len(spoilt) {
		t.Errorf("%d dead letters, want %d", len(letters), len(spoilt))
	}
}

// trainAll is the trainer: it takes and commits every step to the end of the run.
func trainAll(ctx context.Context, t *testing.T, socket string, steps int) {
	t.Helper()
	c := dial(ctx, t, socket)
	for step := 1; step <= steps; step++ {
		b, _, err := c.Next()
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if b.Rows != 4 {
			t.Errorf("step %d has %d rows", step, b.Rows)
		}
		if err := errors.Join(c.Release(b), c.Commit(feed.Commit{Step: b.Step})); err != nil {
			t.Fatal(err)
		}
	}
	var end *feed.EndError
	if _, _, err := c.Next(); !errors.As(err, &end) || end.Reason != "complete" {
		t.Errorf("%v, want the end of the run", err)
	}
	if err := c.Close("done"); err != nil {
		t.Error(err)
	}
}

// dial waits for the bridge to listen.
func dial(ctx context.Context, t *testing.T, socket string) *feed.Client {
	t.Helper()
	for {
		c, err := feed.Dial(ctx, socket, feed.Hello{Client: "test"})
		if err == nil {
			context.AfterFunc(ctx, func() { _ = c.Abort() })
			return c
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

func deadLetters(ctx context.Context, t *testing.T, m *member) map[string][]byte {
	t.Helper()
	letters := map[string][]byte{}
	err := readAll(ctx, m.conn, m.run, subjects.DeadLetter, func(msg *bus.Msg) {
		if msg.Header.Get(subjects.HeaderReason) == "" {
			t.Errorf("dead letter %d has no reason", msg.Seq)
		}
		letters[msg.Header.Get(subjects.HeaderID)] = msg.Data
	})
	if err != nil {
		t.Fatal(err)
	}
	return letters
}

// forger is a producer in another language whose encoder is broken for the
// second slot of every group, once.
type forger struct {
	t       *testing.T
	m       *member
	groups  map[subjects.GroupID][]*bus.Lease
	spoilt  map[subjects.GroupID][]byte // bodies as sent
	counter int
}

func (f *forger) run(ctx context.Context) error {
	leases, err := bus.Tasks(ctx, f.m.conn, f.m.run, zerolog.Nop())
	if err != nil {
		return err
	}
	defer func() { _ = leases.Close() }()
	for {
		l, err := leases.Next(ctx)
		if err != nil {
			return err
		}
		if l.Task.Attempt > 0 {
			err = f.send(ctx, []*bus.Lease{l})
		} else if group := append(f.groups[l.Task.Group], l); len(group) < 4 {
			f.groups[l.Task.Group] = group
		} else {
			err = f.send(ctx, group)
		}
		if err != nil {
			return err
		}
	}
}

// send publishes the leased slots as one bundle.
func (f *forger) send(ctx context.Context, leases []*bus.Lease) error {
	f.counter++
	hdr := nats.Header{subjects.HeaderProducer: {"forger"}, subjects.HeaderCounter: {strconv.Itoa(f.counter)}}
	var bundle []byte
	for _, l := range leases {
		entry, body := f.play(l.Task)
		entry.Offset, entry.Length, entry.Checksum = len(bundle), len(body), subjects.Checksum(body)
		hdr[subjects.HeaderIndex] = append(hdr[subjects.HeaderIndex], entry.String())
		bundle = append(bundle, body...)
	}
	if _, err := f.m.conn.JS().PublishMsg(ctx, &nats.Msg{Subject: f.m.run.RolloutSubject("forger"), Header: hdr, Data: bundle}); err != nil {
		return err
	}
	for _, l := range leases {
		if err := l.Ack(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *forger) play(task *subjects.Task) (subjects.IndexEntry, []byte) {
	tr := &subjects.Trajectory{Kind: task.Kind, Group: task.Group, Slot: task.Slot, Attempt: task.Attempt, Environment: task.Environment,
		Seed: task.Seed, Producer: "forger", Tokenizer: f.m.tok.ID(), Sampling: task.Sampling, Token: task.Token, Status: subjects.Succeeded, Reward: float64(task.Slot % 2)}
	tr.Segments = []subjects.Segment{{Parent: -1, Tokens: []int32{3, 4, 5, 6}, Logprobs: []float32{-1, -2},
		LossMask: []subjects.Span{{Start: 2, End: 4}}, Versions: []subjects.VersionSpan{{Start: 2, End: 4, Version: 1 << 20}}}}
	ordinal, err := strconv.Atoi(string(task.Group[1:]))
	if err != nil || task.Slot != 1 || task.Attempt > 0 || ordinal >= len(spoilt) {
		return tr.Index(), encoded(f.t, tr)
	}
	entry, kind := tr.Index(), spoilt[ordinal]
	if kind.value != nil {
		kind.value(tr)
	}
	body := encoded(f.t, tr)
	if kind.body != nil {
		body = kind.body(body)
	}
	if kind.entry != nil {
		kind.entry(&entry)
	}
	f.spoilt[task.Group] = body
	return entry, body
}
