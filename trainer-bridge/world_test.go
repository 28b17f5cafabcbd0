package trainerbridge

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

const (
	testRun   = subjects.Run("lake")
	testVocab = 1000
)

// world is a run on a real server, with the test in the place of producers and
// grouper.
type world struct {
	testing.TB
	conn    *bus.Conn
	counter int
	head    uint64 // of the ledger
}

func newWorld(t testing.TB) *world { return newWorldOn(t, natstest.InProcess(t)) }

func newWorldOn(t testing.TB, server *bus.Server) *world {
	w := &world{TB: t, conn: natstest.Connect(t, server)}
	if err := bus.EnsureStreams(w.ctx(), w.conn, testRun, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// ctx bounds one step of a test; a hang is a failure with a stack, not a timeout.
func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	w.Cleanup(cancel)
	return ctx
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// episode is a trajectory of tokens tokens in two turns, the same for equal arguments.
func episode(group, slot, tokens int) *subjects.Trajectory {
	t := &subjects.Trajectory{Kind: subjects.Train, Group: subjects.TrainGroup(uint64(group)), Slot: subjects.Slot(slot), Environment: "lake",
		Producer: "p", Status: subjects.Succeeded, Reward: float64(slot % 2), Sampling: subjects.Sampling{Temperature: 1}}
	s := subjects.Segment{Parent: -1}
	for i := range tokens {
		s.Tokens = append(s.Tokens, int32((group*31+slot*7+i)%testVocab))
	}
	for _, turn := range [][2]int{{tokens / 4, tokens / 2}, {3 * tokens / 4, tokens}} {
		s.Versions = append(s.Versions, subjects.VersionSpan{Start: int32(turn[0]), End: int32(turn[1]), Version: subjects.PolicyVersion(group)})
		s.LossMask = append(s.LossMask, subjects.Span{Start: int32(turn[0]), End: int32(turn[1])})
		for i := turn[0]; i < turn[1]; i++ {
			s.Logprobs = append(s.Logprobs, -float32(i+1)/8)
		}
	}
	t.Segments = []subjects.Segment{s}
	return t
}

// forked adds a second segment to a trajectory.
func forked(t *subjects.Trajectory) *subjects.Trajectory {
	s := t.Segments[0]
	s.Parent, s.Shared = 0, len(s.Tokens)/4
	t.Segments = append(t.Segments, s)
	return t
}

// part is one trajectory of a bundle as it will travel, for the test to spoil.
type part struct {
	entry subjects.IndexEntry
	body  []byte
	index string // instead of the entry
}

func (w *world) part(t *subjects.Trajectory) *part {
	var buf bytes.Buffer
	w.must(subjects.EncodeTrajectory(&buf, t))
	return &part{entry: t.Index(), body: buf.Bytes()}
}

// member is what a ledger says of a trajectory at an address.
func member(e subjects.IndexEntry, a subjects.Address) subjects.Member {
	return subjects.Member{Slot: e.Slot, Attempt: e.Attempt, Seq: a.Seq, Index: a.Index, Offset: e.Offset, Length: e.Length,
		Checksum: e.Checksum, Status: e.Status, Reward: e.Reward, Segments: e.Segments, Tokens: e.Tokens, Longest: e.Longest,
		MinVersion: e.MinVersion, MaxVersion: e.MaxVersion, Advantage: float64(e.Slot) - 1.5}
}

// send publishes parts as one bundle and returns what a ledger would say of them.
func (w *world) send(parts ...*part) []subjects.Member {
	w.Helper()
	w.counter++
	hdr := nats.Header{subjects.HeaderProducer: {"p"}, subjects.HeaderCounter: {strconv.Itoa(w.counter)}}
	var body []byte
	for _, p := range parts {
		p.entry.Offset, p.entry.Length = len(body), len(p.body)
		if p.entry.Checksum == 0 {
			p.entry.Checksum = subjects.Checksum(p.body)
		}
		if p.index == "" {
			p.index = p.entry.String()
		}
		hdr[subjects.HeaderIndex] = append(hdr[subjects.HeaderIndex], p.index)
		body = append(body, p.body...)
	}
	ack, err := w.conn.JS().PublishMsg(w.ctx(), &nats.Msg{Subject: testRun.RolloutSubject("p"), Header: hdr, Data: body})
	w.must(err)
	var members []subjects.Member
	for i, p := range parts {
		members = append(members, member(p.entry, subjects.Address{Seq: ack.Sequence, Index: i}))
	}
	return members
}

// group publishes a group of size trajectories in one bundle.
func (w *world) group(n, size int) subjects.BatchGroup {
	var parts []*part
	for slot := range size {
		t := episode(n, slot, 20+(n*13+slot*5)%30)
		if slot == 1 && n%3 == 0 {
			t = forked(t)
		}
		parts = append(parts, w.part(t))
	}
	return subjects.BatchGroup{Group: subjects.TrainGroup(uint64(n)), Environment: "lake", Members: w.send(parts...)}
}

// entry appends a ledger entry.
func (w *world) entry(e subjects.Entry) {
	w.Helper()
	data, err := subjects.EncodeMessage(&e)
	w.must(err)
	w.head, err = bus.Append(w.ctx(), w.conn, testRun.LedgerSubject(), nil, data, w.head)
	w.must(err)
}

func batchOf(step subjects.Step, groups ...subjects.BatchGroup) subjects.Batch {
	b := subjects.Batch{Step: step, Groups: groups, StalenessMax: 1, StalenessMean: .5, RewardMean: .25}
	for _, g := range groups {
		for _, m := range g.Members {
			b.Rows, b.Tokens, b.Longest = b.Rows+m.Segments, b.Tokens+m.Tokens, max(b.Longest, m.Longest)
		}
	}
	return b
}

// steps publishes steps [from, to], two groups of four each.
func (w *world) steps(from, to int) {
	for n := from; n <= to; n++ {
		w.entry(subjects.Entry{Batches: []subjects.Batch{batchOf(subjects.Step(n), w.group(2*n, 4), w.group(2*n+1, 4))}})
	}
}

// serving is a running bridge.
type serving struct {
	w       *world
	address string
	stop    context.CancelFunc // begins the drain
	ended   chan error
	once    sync.Once
	err     error

	mu     sync.Mutex
	events []Event
}

// serve runs a bridge until the test ends.
func (w *world) serve(change func(*Config)) *serving {
	w.Helper()
	s := &serving{w: w, ended: make(chan error, 1)}
	up := make(chan []string, 1)
	cfg := Config{Conn: w.conn, Run: testRun, Listen: []string{"unix:" + filepath.Join(w.TempDir(), "f")}, Vocab: testVocab, Inspect: true,
		Layout: layout.Config{Buckets: []int{64}, Rows: 8, MaxRows: 64, TokenVersions: true}, Instance: "b", Log: zerolog.Nop(),
		DrainTimeout: 10 * time.Second, takeover: 100 * time.Millisecond, OnEvent: s.hear, OnListen: func(a []string) { up <- a }}
	if change != nil {
		change(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() { s.ended <- Run(ctx, cfg) }()
	w.Cleanup(func() { _ = s.end() })
	select {
	case a := <-up:
		s.address = a[0]
	case err := <-s.ended:
		w.Fatalf("bridge ended at once: %v", err)
	}
	return s
}

func (s *serving) hear(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *serving) heard(k EventKind) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// end drains the bridge and returns what Run returned.
func (s *serving) end() error {
	s.once.Do(func() {
		s.stop()
		s.err = <-s.ended
	})
	return s.err
}

// dial connects a trainer whose checkpoint holds a step.
func (s *serving) dial(checkpoint int) *feed.Client {
	s.w.Helper()
	c, err := s.tryDial(checkpoint)
	s.w.must(err)
	return c
}

func (s *serving) tryDial(checkpoint int) (*feed.Client, error) {
	step := subjects.Step(checkpoint)
	c, err := feed.Dial(s.w.ctx(), s.address, feed.Hello{Client: "test", CheckpointStep: &step})
	if err == nil {
		s.w.Cleanup(func() { _ = c.Abort() })
	}
	return c, err
}

// train takes n batches, commits each, and returns their digests.
func train(t testing.TB, c *feed.Client, n int) (digests []string) {
	t.Helper()
	for range n {
		b, memory, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%08x", subjects.Checksum(memory)); got != b.Digest {
			t.Fatalf("step %d: digest %s of %s", b.Step, b.Digest, got)
		}
		digests = append(digests, b.Digest)
		if err := c.Release(b); err != nil {
			t.Fatal(err)
		}
		if err := c.Commit(feed.Commit{Step: b.Step, Metrics: map[string]float64{"loss": .5}, Tokens: int64(b.Tokens)}); err != nil {
			t.Fatal(err)
		}
	}
	return digests
}

// stored reads the messages of a stream so far.
func (w *world) stored(s subjects.Stream) (all []*nats.Msg) {
	w.Helper()
	stream, err := w.conn.JS().Stream(w.ctx(), testRun.StreamName(s))
	w.must(err)
	info, err := stream.Info(w.ctx())
	w.must(err)
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
		m, err := stream.GetMsg(w.ctx(), seq)
		w.must(err)
		all = append(all, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	return all
}
