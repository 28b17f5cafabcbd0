package flowtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// TestFlow_ATrainerThatStopsPausesProducersAndLosesNothing lets the trainer
// take some steps and then none. What was played then is what batches ahead of
// it need, and no task is left that anybody could play. When it goes on, the run
// ends with every trajectory that was ever produced in one batch, once.
func TestFlow_ATrainerThatStopsPausesProducersAndLosesNothing(t *testing.T) {
	const stops = 3
	w := newWorld(t, bus.ServerOptions{Port: -1}, subjects.StreamOptions{})
	s := &spec{GroupSize: 4, Groups: 2, Steps: 9, Staleness: 1, Turns: 2, Sampled: 16, Slots: 8, Bucket: 256, Rows: 8, Listen: w.address()}
	w.engine(s.Sampled)
	w.start("grouper", func(ctx context.Context) error { return s.grouper(ctx, w.conn, zerolog.Nop()) })
	w.start("bridge", func(ctx context.Context) error { return s.bridge(ctx, w.conn, zerolog.Nop()) })
	w.start("producer", func(ctx context.Context) error { return s.producer(ctx, w.conn, "p1", zerolog.Nop()) })
	goOn, rows := make(chan struct{}), 0
	trained := make(chan error, 1)
	w.start("trainer", func(ctx context.Context) error {
		err := s.trainer(ctx, func(step subjects.Step) error {
			if step == stops+1 {
				select {
				case <-goOn:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}, func(b taken) error { rows += b.Rows; return nil })
		trained <- err
		return err
	})

	ahead := stops + 1 + s.Staleness // the last step whose batch may be cut
	w.ledger("the last batch before the pause", func(e *subjects.Entry) bool {
		return slices.ContainsFunc(e.Batches, func(b subjects.Batch) bool { return int(b.Step) == ahead })
	})
	w.until("end of the leases", func() bool { return w.messages(subjects.Tasks) == 0 })
	produced := w.trajectories()
	if want := ahead * s.Groups * s.GroupSize; len(produced) != want {
		t.Errorf("%d trajectories while the trainer stands, want %d", len(produced), want)
	}
	if issued := w.issued(); issued != ahead*s.Groups {
		t.Errorf("%d groups issued, want %d: producers would go on", issued, ahead*s.Groups)
	}

	close(goOn)
	w.must(<-trained)
	produced = w.trajectories()
	batched := w.batched()
	if want := s.Steps * s.Groups * s.GroupSize; len(produced) != want || rows != want || !maps.Equal(produced, batched) {
		t.Errorf("%d trajectories, %d in batches, %d rows trained, want %d", len(produced), len(batched), rows, want)
	}
}

// trajectories are all in ROLLOUTS, by id, and how often.
func (w *world) trajectories() map[string]int {
	w.Helper()
	found := map[string]int{}
	state, err := bus.StreamState(w.ctx(), w.conn, run, subjects.Rollouts)
	w.must(err)
	if state.Msgs == 0 {
		return found
	}
	err = bus.FollowHeaders(w.ctx(), w.conn, run, 1, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			for _, text := range msgs[i].Header[subjects.HeaderIndex] {
				e, err := subjects.ParseIndex(text)
				if err != nil {
					return err
				}
				found[e.ID()]++
			}
			if msgs[i].Seq >= state.LastSeq {
				return errEnough
			}
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		w.Fatal(err)
	}
	return found
}

// entries are the decisions so far.
func (w *world) entries(fn func(*subjects.Entry)) {
	w.Helper()
	state, err := bus.StreamState(w.ctx(), w.conn, run, subjects.Ledger)
	w.must(err)
	n := uint64(0)
	w.ledger("the ledger's end", func(e *subjects.Entry) bool {
		fn(e)
		n++
		return n == state.Msgs
	})
}

// batched are the trajectories of all batches, by id, and how often.
func (w *world) batched() map[string]int {
	w.Helper()
	found := map[string]int{}
	w.entries(func(e *subjects.Entry) {
		for _, b := range e.Batches {
			for _, g := range b.Groups {
				for _, m := range g.Members {
					found[subjects.TrajectoryID(g.Group, m.Slot, m.Attempt)]++
				}
			}
		}
	})
	return found
}

// issued is the number of groups.
func (w *world) issued() (n int) {
	w.Helper()
	w.entries(func(e *subjects.Entry) {
		for _, i := range e.Issued {
			n += i.Count
		}
	})
	return n
}

// TestFlow_AFullStreamHoldsProducersUntilThereIsRoom gives a producer many more
// tasks than ROLLOUTS has room for. It says on its gauges and its log that it
// waits, and holds its leases; every time some of the stream is purged it goes on.
func TestFlow_AFullStreamHoldsProducersUntilThereIsRoom(t *testing.T) {
	const tasks, limit = 240, 64 << 10
	w := newWorld(t, bus.ServerOptions{Port: -1}, subjects.StreamOptions{RolloutBytes: limit})
	s := &spec{Turns: 2, Sampled: 64, Slots: 16, Bucket: 512}
	w.engine(s.Sampled)
	var all []*subjects.Task
	for i := range tasks {
		all = append(all, &subjects.Task{V: 1, Kind: subjects.Train, Group: subjects.TrainGroup(uint64(i)), Environment: "long", Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: s.Sampled}})
	}
	_, err := bus.PublishTasks(w.ctx(), w.conn, run, all)
	w.must(err)
	out := &lines{}
	w.start("producer", func(ctx context.Context) error { return s.producer(ctx, w.conn, "p1", out.log()) })
	w.gauge("a producer that says it is blocked", producing, func(g map[string]float64) bool {
		return g["publisher_blocked"] == 1 && g["leases_held"] == float64(s.Slots)
	})
	if !strings.Contains(out.String(), "rollouts stream is full, waiting for room") {
		t.Errorf("no word of it in the log:\n%s", out)
	}
	state, err := bus.StreamState(w.ctx(), w.conn, run, subjects.Rollouts)
	w.must(err)
	if state.Bytes > limit || state.Bytes < limit/2 {
		t.Errorf("the stream holds %d bytes, of %d", state.Bytes, limit)
	}

	seen := map[string]int{}
	err = bus.FollowBundles(w.ctx(), w.conn, run, 1, func(m *bus.Msg, b *bus.Bundle, err error) error {
		if err != nil || m.Skipped > 0 {
			return fmt.Errorf("message %d after a gap of %d: %w", m.Seq, m.Skipped, err)
		}
		for i := range b.Items {
			seen[b.Items[i].Entry.ID()]++
		}
		if len(seen) == tasks {
			return errEnough
		}
		return bus.Purge(w.ctx(), w.conn, run, subjects.Rollouts, m.Seq+1)
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("%d of %d trajectories: %v", len(seen), tasks, err)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	w.until("end of the leases", func() bool { return w.messages(subjects.Tasks) == 0 })
	w.gauge("a producer that is free again", producing, func(g map[string]float64) bool {
		return g["published"] == tasks && g["publisher_blocked"] == 0 && g["publisher_waiting"] == 0
	})
}

const producing = "produce" // the role in telemetry

// TestFlow_AReaderThatStallsIsHealedAndMissesNothing holds what the server sends
// to a follower, while far more is published than is on its way, and then cuts
// the connection as a server does that has waited long enough. The follower says
// so, and reads on where it was.
func TestFlow_AReaderThatStallsIsHealedAndMissesNothing(t *testing.T) {
	const before, after, size = 20, 200, 256 << 10
	w := newWorld(t, bus.ServerOptions{}, subjects.StreamOptions{})
	tap := newTap(t, w.server)
	out := &lines{}
	reader := tap.connect(t, out.log())
	publisher := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: run, Producer: "p1"})
	defer publisher.Close(w.ctx()) //nolint:errcheck // all is acknowledged
	next := uint64(1)
	var once sync.Once
	publish := func(from, n int) {
		for i := from; i < from+n; i++ {
			_, err := publisher.PublishEncoded(w.ctx(), entry(i), make([]byte, size))
			w.must(err)
		}
	}
	publish(0, before)
	err := bus.Follow(w.ctx(), reader, run.StreamName(subjects.Rollouts), "", 1, func(m *bus.Msg) error {
		if m.Seq != next || m.Skipped > 0 || len(m.Data) != size {
			return fmt.Errorf("message %d of %d bytes after a gap of %d, want %d", m.Seq, len(m.Data), m.Skipped, next)
		}
		if next++; m.Seq == before {
			once.Do(func() {
				tap.hold(true)
				publish(before, after)
				tap.cut()
				tap.hold(false)
			})
		}
		if next > before+after {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "bus connection lost, reconnecting") {
		t.Errorf("the follower was disconnected silently:\n%s", out)
	}
}

func entry(i int) subjects.IndexEntry {
	return subjects.IndexEntry{Kind: subjects.Train, Group: subjects.TrainGroup(uint64(i)), Status: subjects.Succeeded, Segments: 1, Tokens: 8, Longest: 8,
		MinVersion: subjects.NoVersion, MaxVersion: subjects.NoVersion, Environment: "long"}
}
