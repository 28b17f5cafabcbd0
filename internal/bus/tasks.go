package bus

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/subjects"
)

// LeaseTime is how long a lease lives without a sign of progress.
const LeaseTime = 30 * time.Second

// PublishTask queues a task. It is idempotent: false means that the task was
// already queued or leased.
func PublishTask(ctx context.Context, c *Conn, run subjects.Run, t *subjects.Task) (queued bool, err error) {
	return false, errors.ErrUnsupported
}

// PublishTasks queues many tasks, pipelined, and returns how many were new.
func PublishTasks(ctx context.Context, c *Conn, run subjects.Run, tasks []*subjects.Task) (queued int, err error) {
	return 0, errors.ErrUnsupported
}

// Leases hands out a run's tasks. It asks the queue for as many as there are
// callers of Next, never for more: what it holds, nobody else can play.
type Leases struct{}

// Tasks opens the run's task queue; Close it.
func Tasks(ctx context.Context, c *Conn, run subjects.Run, log zerolog.Logger) (*Leases, error) {
	return nil, errors.ErrUnsupported
}

// Next waits for a task. It is safe for concurrent use.
func (l *Leases) Next(ctx context.Context) (*Lease, error) { return nil, errors.ErrUnsupported }

// Close gives back what was not handed out.
func (l *Leases) Close() error { return nil }

// Lease is one task in this process's hands. It comes back to the queue
// LeaseTime after the last sign of progress.
type Lease struct {
	Task *subjects.Task
	// Deliveries counts how often the task has been leased, this time included.
	Deliveries uint64
}

// InProgress extends the lease; call it every LeaseTime/3 at least.
func (l *Lease) InProgress() error { return nil }

// Ack ends the task: its trajectory is durable. It returns when the server has it.
func (l *Lease) Ack(ctx context.Context) error { return nil }

// Nak gives the task back; it is leased again after the delay.
func (l *Lease) Nak(delay time.Duration) error { return nil }

// Term ends the task without a trajectory, for ever.
func (l *Lease) Term(reason string) error { return nil }
