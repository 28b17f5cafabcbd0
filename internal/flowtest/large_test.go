package flowtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const (
	hugeBody   = 64 << 20 // where every role is a process: TestMemory_...
	largeBody  = 20 << 20 // elsewhere: over any max_payload
	longTokens = 150_000
)

// huge is a trajectory of few tokens whose conversation makes its body large.
func huge(task *subjects.Task, bodyBytes int) *subjects.Trajectory {
	t := sampled(task, 64)
	t.Messages = []subjects.Message{{Role: "tool", Content: strings.Repeat("0123456789abcdef", bodyBytes/16)}}
	return t
}

// sampled is a trajectory of n tokens, all but a tenth of them sampled with a
// logprob: the same for the same task.
func sampled(task *subjects.Task, n int) *subjects.Trajectory {
	prompt := int32(n / 10)
	s := subjects.Segment{Parent: -1, Tokens: make([]int32, n), Logprobs: make([]float32, n-int(prompt)),
		Versions: []subjects.VersionSpan{{Start: prompt, End: int32(n), Version: 0}}, LossMask: []subjects.Span{{Start: prompt, End: int32(n)}}}
	for i := range s.Tokens {
		s.Tokens[i] = int32((i*7 + int(task.Slot)*13 + 1) % 50_000)
	}
	for i := range s.Logprobs {
		s.Logprobs[i] = -float32(i%1000+1) / 512
	}
	return &subjects.Trajectory{Kind: task.Kind, Group: task.Group, Slot: task.Slot, Attempt: task.Attempt, Environment: task.Environment, Producer: "p1",
		Sampling: task.Sampling, Status: subjects.Succeeded, Reward: float64(task.Slot % 2), Segments: []subjects.Segment{s}, Token: task.Token}
}

// publisher leases tasks and publishes what play makes of them, as the role
// does, without episodes.
func (s *spec) publisher(ctx context.Context, c *bus.Conn, held int, play func(*subjects.Task) *subjects.Trajectory) error {
	leases, err := bus.Tasks(ctx, c, run, zerolog.Nop())
	if err != nil {
		return err
	}
	defer leases.Close() //nolint:errcheck // what it holds comes back
	p := bus.NewPublisher(c, bus.PublisherConfig{Run: run, Producer: "p1", HeldBytes: held, Log: zerolog.Nop()})
	defer p.Close(ctx) //nolint:errcheck // all is acknowledged, or the test is over
	slots := make(chan error)
	for range s.Slots {
		go func() {
			for {
				l, err := leases.Next(ctx)
				if err == nil {
					if _, err = p.Publish(ctx, play(l.Task)); err == nil {
						err = l.Ack(ctx)
					}
				}
				if err != nil {
					slots <- err
					return
				}
			}
		}()
	}
	for range s.Slots {
		err = errors.Join(err, <-slots)
	}
	return err
}

// TestFlow_BodiesLargerThanMessagesArriveEqual sends a body of 20 MB and a
// trajectory of 150,000 tokens with their logprobs from producer to trainer,
// through servers whose messages hold 1 MB and 8 MB: the same bytes come out.
func TestFlow_BodiesLargerThanMessagesArriveEqual(t *testing.T) {
	digests := map[string]bool{}
	for _, payload := range []int32{1 << 20, 8 << 20} {
		w := newWorld(t, bus.ServerOptions{Port: -1, MaxPayload: payload}, subjects.StreamOptions{})
		s := &spec{GroupSize: 2, Groups: 1, Steps: 1, Slots: 2, Bucket: longTokens, Rows: 2, Listen: w.address(), CacheBytes: 16 << 20}
		w.start("grouper", func(ctx context.Context) error { return s.grouper(ctx, w.conn, zerolog.Nop()) })
		w.start("bridge", func(ctx context.Context) error { return s.bridge(ctx, w.conn, zerolog.Nop()) })
		w.start("producer", func(ctx context.Context) error {
			return s.publisher(ctx, w.conn, 1<<20, func(task *subjects.Task) *subjects.Trajectory { return largest(task, largeBody) })
		})
		w.must(s.trainer(w.ctx(), func(subjects.Step) error { return nil }, func(b taken) error {
			digests[b.Digest] = true
			return b.equal(sampled(&subjects.Task{Slot: 0}, 64), sampled(&subjects.Task{Slot: 1}, longTokens))
		}))
		w.bodies(func(task *subjects.Task) *subjects.Trajectory { return largest(task, largeBody) })
	}
	if len(digests) != 1 {
		t.Errorf("batches differ with max_payload: %v", digests)
	}
}

// largest is a large body at slot 0 and a long one at slot 1.
func largest(task *subjects.Task, body int) *subjects.Trajectory {
	if task.Slot == 0 {
		return huge(task, body)
	}
	return sampled(task, longTokens)
}

// equal wants the batch's rows to be these trajectories.
func (b taken) equal(want ...*subjects.Trajectory) error {
	if b.Rows != len(want) {
		return fmt.Errorf("%d rows, want %d", b.Rows, len(want))
	}
	for row, t := range want {
		s := &t.Segments[0]
		tokens, logprobs := b.row("tokens", row), b.row("logprobs", row)
		from := int(s.Versions[0].Start)
		for i, id := range s.Tokens {
			if got := int32(binary.LittleEndian.Uint32(tokens[4*i:])); got != id {
				return fmt.Errorf("row %d: token %d is %d, want %d", row, i, got, id)
			}
			want := float32(0)
			if i >= from {
				want = s.Logprobs[i-from]
			}
			if got := math.Float32frombits(binary.LittleEndian.Uint32(logprobs[4*i:])); got != want {
				return fmt.Errorf("row %d: logprob of token %d is %v, want %v", row, i, got, want)
			}
		}
	}
	return nil
}

// row is one row of an array of 4-byte elements.
func (b taken) row(name string, i int) []byte {
	for _, a := range b.Arrays {
		if a.Name == name {
			width := 4 * a.Shape[1]
			return b.memory[a.Offset+i*width:][:width]
		}
	}
	return nil
}

// bodies wants ROLLOUTS to have what was published, byte for byte.
func (w *world) bodies(play func(*subjects.Task) *subjects.Trajectory) {
	w.Helper()
	n := 0
	err := bus.FollowBundles(w.ctx(), w.conn, run, 1, func(m *bus.Msg, b *bus.Bundle, err error) error {
		if err != nil {
			return err
		}
		for i := range b.Items {
			e := &b.Items[i].Entry
			got, err := subjects.DecodeTrajectory(b.Body(i))
			if err != nil {
				return err
			}
			var want bytes.Buffer
			if err := subjects.EncodeTrajectory(&want, play(&subjects.Task{Kind: e.Kind, Group: e.Group, Slot: e.Slot, Attempt: e.Attempt, Environment: e.Environment, Sampling: got.Sampling})); err != nil {
				return err
			}
			if !bytes.Equal(want.Bytes(), b.Body(i)) {
				return fmt.Errorf("%s: %d bytes differ from the %d published", e.ID(), len(b.Body(i)), want.Len())
			}
			if len(m.Header[subjects.HeaderParts]) == 0 && int64(want.Len()) > w.conn.MaxPayload() {
				return fmt.Errorf("%s: %d bytes in one message", e.ID(), want.Len())
			}
			n++
		}
		if n == 2 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		w.Fatal(err)
	}
}
