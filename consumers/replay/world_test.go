package replay_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const groupSize = 4

// world is a run on a real server: groups of four by two producers, every third
// one of which the ledger puts into a batch of its own.
type world struct {
	testing.TB
	conn *bus.Conn
	run  subjects.Run
	head uint64 // of the ledger
}

func newWorld(t testing.TB, srv *bus.Server, run subjects.Run) *world {
	w := &world{TB: t, conn: natstest.Connect(t, srv), run: run}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{RolloutBytes: 1 << 28}))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// play publishes groups from one ordinal to before another. The bodies of one
// are larger than a message can be.
func (w *world) play(from, to int) {
	for n := from; n < to; n++ {
		producer := []string{"p1", "p2"}[n%2]
		p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: w.run, Producer: producer})
		var wg sync.WaitGroup
		var mu sync.Mutex
		var group []subjects.Member
		for slot := range groupSize {
			wg.Go(func() {
				t := episode(n, slot, producer)
				at, err := p.Publish(w.Context(), t)
				if err != nil {
					w.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				group = append(group, subjects.Member{Slot: t.Slot, Seq: at.Seq, Index: at.Index})
			})
		}
		wg.Wait()
		w.must(p.Close(context.WithoutCancel(w.Context())))
		if n%3 == 0 {
			w.batch(subjects.Step(n/3+1), subjects.TrainGroup(uint64(n)), group)
		}
	}
}

// batch appends the batch of a step.
func (w *world) batch(step subjects.Step, group subjects.GroupID, members []subjects.Member) {
	state, err := bus.StreamState(w.Context(), w.conn, w.run, subjects.Rollouts)
	w.must(err)
	e := &subjects.Entry{V: subjects.SchemaVersion, Rollouts: state.LastSeq,
		Batches: []subjects.Batch{{Step: step, Groups: []subjects.BatchGroup{{Group: group, Members: members}}}}}
	data, err := subjects.EncodeMessage(e)
	w.must(err)
	w.head, err = bus.Append(w.Context(), w.conn, w.run.LedgerSubject(), nil, data, w.head)
	w.must(err)
}

func episode(n, slot int, producer string) *subjects.Trajectory {
	t := &subjects.Trajectory{Kind: subjects.Train, Group: subjects.TrainGroup(uint64(n)), Slot: subjects.Slot(slot), Environment: []string{"lake", "maze"}[n/2%2],
		Seed: int64(n), Producer: producer, Tokenizer: "bytes", Status: subjects.Succeeded, Reward: float64(slot) / 3}
	switch {
	case n%5 == 1 && slot == 2:
		t.Status, t.Reward, t.Reason = subjects.Failed, 0, "engine"
	case n == 4:
		t.Messages = []subjects.Message{{Role: "user", Content: strings.Repeat("größer ", 40_000)}}
	}
	if t.Status.Trained() {
		s := subjects.Segment{Parent: -1, Versions: []subjects.VersionSpan{{Start: 2, End: 10}}, LossMask: []subjects.Span{{Start: 2, End: 10}}}
		for i := range 10 {
			s.Tokens = append(s.Tokens, int32(i*slot+n)) //nolint:gosec // small
			if i >= 2 {
				s.Logprobs = append(s.Logprobs, -float32(i)/10)
			}
		}
		t.Segments = []subjects.Segment{s}
	}
	return t
}

// read replays what a filter chooses.
func (w *world) read(f replay.Filter) ([]*replay.Record, string) {
	w.Helper()
	var d replay.Digest
	var all []*replay.Record
	w.must(replay.Read(w.Context(), w.conn, w.run, f, func(r *replay.Record) error {
		d.Add(r)
		all = append(all, r)
		return nil
	}))
	return all, d.Sum()
}
