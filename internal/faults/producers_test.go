package faults

import (
	"bytes"
	"context"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// rollout is a sound trajectory whose reward differs by slot.
func rollout(group subjects.GroupID, slot int) *subjects.Trajectory {
	return &subjects.Trajectory{Kind: subjects.Train, Group: group, Slot: subjects.Slot(slot), Environment: "lake", Producer: "p",
		Status: subjects.Succeeded, Reward: float64(slot), Sampling: subjects.Sampling{Temperature: 1},
		Segments: []subjects.Segment{{Parent: -1, Tokens: []int32{1, 2, int32(3 + slot)}, Logprobs: []float32{-1},
			LossMask: []subjects.Span{{Start: 2, End: 3}}, Versions: []subjects.VersionSpan{{Start: 2, End: 3, Version: 1 << 20}}}}}
}

// played is what a producer makes of a task.
func played(t *subjects.Task) *subjects.Trajectory {
	tr := rollout(t.Group, int(t.Slot))
	tr.Kind, tr.Attempt, tr.Round, tr.Seed, tr.Sampling, tr.Token = t.Kind, t.Attempt, t.Round, t.Seed, t.Sampling, t.Token
	return tr
}

func failedOf(t *subjects.Trajectory) *subjects.Trajectory {
	t.Status, t.Reason, t.Reward, t.Segments = subjects.Failed, "the prompt is cursed", 0, nil
	return t
}

// publisher is a user's own producer.
func (p *pipeline) publisher(name string) *bus.Publisher {
	pub := bus.NewPublisher(p.conn, bus.PublisherConfig{Run: run, Producer: name})
	p.Cleanup(func() { _ = pub.Close(context.Background()) })
	return pub
}

// publish publishes slots of a group.
func (p *pipeline) publish(pub *bus.Publisher, group subjects.GroupID, slots ...int) {
	p.Helper()
	for _, slot := range slots {
		_, err := pub.Publish(p.Context(), rollout(group, slot))
		p.must(err)
	}
}

// raw publishes bodies as they are under an index that may lie, and under a
// message id of its own: nothing that the client checks or the bus dedupes.
func (p *pipeline) raw(producer string, counter int, e subjects.IndexEntry, body []byte) uint64 {
	p.Helper()
	e.Offset, e.Length, e.Checksum = 0, len(body), subjects.Checksum(body)
	hdr := nats.Header{subjects.HeaderIndex: {e.String()}, subjects.HeaderProducer: {producer}, subjects.HeaderCounter: {strconv.Itoa(counter)}}
	ack, err := p.conn.JS().PublishMsg(p.Context(), &nats.Msg{Subject: run.RolloutSubject(producer), Header: hdr, Data: body})
	p.must(err)
	return ack.Sequence
}

// again publishes a trajectory once more as the bus cannot know it: the window
// in which it recognises message ids is long over.
func (p *pipeline) again(producer string, counter int, t *subjects.Trajectory) {
	p.Helper()
	p.raw(producer, counter, t.Index(), p.body(t))
}

func (p *pipeline) body(t *subjects.Trajectory) []byte {
	p.Helper()
	var buf bytes.Buffer
	p.must(subjects.EncodeTrajectory(&buf, t))
	return buf.Bytes()
}

// fleet plays every task as make says until it is stopped; nil: it keeps the
// lease and publishes nothing.
func (p *pipeline) fleet(name string, make func(*subjects.Task) *subjects.Trajectory) (stop func(), count *atomic.Int64) {
	count = new(atomic.Int64)
	return p.start(func(ctx context.Context) error {
		leases, err := bus.Tasks(ctx, p.conn, run, zerolog.Nop())
		if err != nil {
			return err
		}
		defer func() { _ = leases.Close() }()
		pub := bus.NewPublisher(p.conn, bus.PublisherConfig{Run: run, Producer: name})
		defer func() { _ = pub.Close(context.WithoutCancel(ctx)) }()
		for {
			l, err := leases.Next(ctx)
			if err != nil {
				return err
			}
			t := make(l.Task)
			if t == nil {
				continue
			}
			if _, err := pub.Publish(ctx, t); err != nil {
				return err
			}
			if err := l.Ack(ctx); err != nil {
				return err
			}
			count.Add(1)
		}
	}), count
}
