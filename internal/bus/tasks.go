package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/subjects"
)

// LeaseTime is how long a lease lives without a sign of progress: how long a run
// that needs every group stands still for a producer that was killed. Shorter
// ones cost a message a lease every third of it.
const LeaseTime = 10 * time.Second

// taskWindow is how many tasks are published before the first answer is awaited.
const taskWindow = 256

// PublishTask queues a task. It is idempotent: false means that the task was
// already queued or leased.
func PublishTask(ctx context.Context, c *Conn, run subjects.Run, t *subjects.Task) (queued bool, err error) {
	n, err := PublishTasks(ctx, c, run, []*subjects.Task{t})
	return n == 1, err
}

// PublishTasks queues many tasks, pipelined, and returns how many were new.
// After an error it is unknown which of them are queued; publish all again.
func PublishTasks(ctx context.Context, c *Conn, run subjects.Run, tasks []*subjects.Task) (queued int, err error) {
	for len(tasks) > 0 {
		n := min(len(tasks), taskWindow)
		k, err := publishTasks(ctx, c, run, tasks[:n])
		if queued += k; err != nil {
			return queued, err
		}
		tasks = tasks[n:]
	}
	return queued, nil
}

func publishTasks(ctx context.Context, c *Conn, run subjects.Run, tasks []*subjects.Task) (queued int, err error) {
	for r := (retry{}); len(tasks) > 0; {
		var n int
		n, tasks, err = publishTasksOnce(ctx, c, run, tasks)
		if queued += n; err == nil {
			continue
		}
		if err := r.again(ctx, c, err); err != nil {
			return queued, err
		}
	}
	return queued, nil
}

// publishTasksOnce sends all tasks and returns those without a certain answer,
// and the error that made the first of them so.
func publishTasksOnce(ctx context.Context, c *Conn, run subjects.Run, tasks []*subjects.Task) (queued int, open []*subjects.Task, err error) {
	ch := make(chan reply, len(tasks))
	ids := map[uint64]uint64{}
	defer func() {
		for i, id := range ids {
			c.calls.take(id)
			open = append(open, tasks[i])
		}
	}()
	for i, t := range tasks {
		body, err := subjects.EncodeMessage(t)
		if err != nil {
			return 0, nil, fmt.Errorf("publish task %s: %w", t.ID(), err)
		}
		subject := run.TaskSubject(t.Kind, t.Group, t.Slot, t.Attempt)
		id, err := c.start(subject, nil, body, uint64(i), ch)
		if err != nil {
			open = append(open, tasks[i:]...)
			return 0, open, classify("publish task to", subject, err)
		}
		ids[uint64(i)] = id
	}
	timer := time.NewTimer(smallTimeout)
	defer timer.Stop()
	for len(ids) > 0 {
		select {
		case r := <-ch:
			timer.Reset(smallTimeout)
			fresh, err := taskAnswer(r)
			if err != nil {
				return queued, open, err
			}
			delete(ids, r.tag)
			if fresh {
				queued++
			}
		case <-timer.C:
			return queued, open, classify("publish tasks of", string(run), nats.ErrTimeout)
		case <-ctx.Done():
			return queued, open, classify("publish tasks of", string(run), ctx.Err())
		}
	}
	return queued, open, nil
}

func taskAnswer(r reply) (fresh bool, err error) {
	m, err := r.check("publish", "task")
	if err != nil {
		return false, err
	}
	_, err = parseAck("publish", "task", m.Data)
	if errors.Is(err, ErrQueued) {
		return false, nil
	}
	return err == nil, err
}

// Lease is one task in this process's hands. It comes back to the queue
// LeaseTime after the last sign of progress.
type Lease struct {
	Task *subjects.Task
	// Deliveries counts how often the task has been leased, this time included.
	Deliveries uint64
	conn       *Conn
	reply      string // where the consumer is told
}

func (l *Lease) tell(what string) error {
	return classify("report on task", l.Task.ID(), l.conn.nc.Publish(l.reply, []byte(what)))
}

// InProgress extends the lease; call it every LeaseTime/3 at least.
func (l *Lease) InProgress() error { return l.tell("+WPI") }

const (
	ackTimeout = 2 * time.Second
	ackTries   = 2                      // that may go unanswered over a live connection
	ackAgain   = 500 * time.Millisecond // after the connection broke
)

// Ack ends the task: its trajectory is durable. It returns when the server has
// it. After an error the task may be leased again, which the grouper absorbs. A
// server that was killed may have forgotten the lease and never answers; it is
// not waited for.
func (l *Lease) Ack(ctx context.Context) error {
	limit, tries := ackTimeout, ackTries
	for r := (retry{}); ; {
		if l.conn.cameBack(LeaseTime) { // most likely without its memory
			limit, tries = ackAgain, 1
		}
		begun := time.Now()
		err := within(ctx, limit, func(ctx context.Context) error {
			_, err := l.conn.request(ctx, "acknowledge task", l.reply, nil, []byte("+ACK"))
			return err
		})
		if err == nil {
			return nil
		}
		if time.Since(begun) >= limit {
			if tries--; tries == 0 {
				return fmt.Errorf("task %s: %w", l.Task.ID(), err)
			}
		}
		if err := r.again(ctx, l.conn, err); err != nil {
			return fmt.Errorf("task %s: %w", l.Task.ID(), err)
		}
	}
}

// Nak gives the task back; it is leased again after the delay.
func (l *Lease) Nak(delay time.Duration) error {
	if delay <= 0 {
		return l.tell("-NAK")
	}
	return l.tell(fmt.Sprintf(`-NAK {"delay": %d}`, delay.Nanoseconds()))
}

// Term ends the task without a trajectory, for ever.
func (l *Lease) Term(reason string) error { return l.tell("+TERM " + reason) }
