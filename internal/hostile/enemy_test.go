package hostile

import (
	"bytes"
	"context"
	"maps"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const mallory = "mallory"

// enemy is a producer that means harm.
type enemy struct {
	*world
	conn *bus.Conn

	mu      sync.Mutex
	counter int
	leases  map[string]bool
}

// message is a ROLLOUTS message that an attack spoils.
type message struct {
	subject string
	header  nats.Header
	data    []byte
}

// bundle is an honest message of trajectories, to begin with.
func (e *enemy) bundle(trajectories ...*subjects.Trajectory) *message {
	m := &message{subject: run.RolloutSubject(mallory), header: nats.Header{subjects.HeaderProducer: {mallory}}}
	for _, t := range trajectories {
		var buf bytes.Buffer
		if err := subjects.EncodeTrajectory(&buf, t); err != nil {
			panic(err)
		}
		x := t.Index()
		x.Offset, x.Length, x.Checksum = len(m.data), buf.Len(), subjects.Checksum(buf.Bytes())
		m.header[subjects.HeaderIndex] = append(m.header[subjects.HeaderIndex], x.String())
		m.data = append(m.data, buf.Bytes()...)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counter++
	m.header[subjects.HeaderCounter] = []string{strconv.Itoa(e.counter)}
	return m
}

// entry changes the first index entry.
func (m *message) entry(change func(x *subjects.IndexEntry)) *message {
	x, err := subjects.ParseIndex(m.header[subjects.HeaderIndex][0])
	if err != nil {
		panic(err)
	}
	change(&x)
	m.header[subjects.HeaderIndex][0] = x.String()
	return m
}

// send stores a message and returns its sequence.
func (e *enemy) send(ctx context.Context, m *message) (uint64, error) {
	ack, err := e.conn.JS().PublishMsg(ctx, &nats.Msg{Subject: m.subject, Header: m.header, Data: m.data})
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// shout publishes without waiting for anything.
func (e *enemy) shout(m *message) error {
	return e.conn.NC().PublishMsg(&nats.Msg{Subject: m.subject, Header: m.header, Data: m.data})
}

// size is about what a message takes on the wire, bytes.
func (m *message) size() int {
	n := 200 + len(m.data)
	for _, values := range m.header {
		for _, v := range values {
			n += len(v) + 10
		}
	}
	return n
}

// flood shouts until ctx ends, or bytes are sent in at most messages; begun is
// closed after the first lot.
func (e *enemy) flood(ctx context.Context, begun chan<- struct{}, bytes, messages int, next func(i int) *message) error {
	for i := 0; ctx.Err() == nil; i++ {
		if bytes <= 0 || i >= messages {
			<-ctx.Done()
			break
		}
		m := next(i)
		if err := e.shout(m); err != nil {
			return err
		}
		if bytes -= m.size(); i == 50 {
			if err := e.conn.NC().FlushWithContext(ctx); err != nil {
				return err
			}
			close(begun)
		}
	}
	return nil
}

// lease takes n tasks, as fast as they come.
func (e *enemy) lease(ctx context.Context, n int) ([]*bus.Lease, error) {
	queue, err := bus.Tasks(ctx, e.conn, run, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	e.world.Cleanup(func() { _ = queue.Close() })
	var out []*bus.Lease
	for range n {
		l, err := queue.Next(ctx)
		if err != nil {
			return out, err
		}
		e.note(l.Task)
		out = append(out, l)
	}
	return out, nil
}

func (e *enemy) note(t *subjects.Task) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leases == nil {
		e.leases = map[string]bool{}
	}
	e.leases[t.ID()] = true
}

func (e *enemy) held() map[string]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.leases)
}

// forge is a well-formed trajectory of somebody else's task, which is worth more.
func forge(g, slot, attempt int) *subjects.Trajectory {
	t := played(&subjects.Task{Kind: subjects.Train, Group: subjects.TrainGroup(uint64(g)), Slot: subjects.Slot(slot), Attempt: subjects.Attempt(attempt),
		Environment: "lake", Sampling: subjects.Sampling{Temperature: 1}}, mallory)
	t.Reward = 1000
	return t
}
