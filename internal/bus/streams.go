package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// EnsureStreams creates the run's streams, task consumer and key-value buckets,
// or checks those that exist. A difference that matters is ErrIncompatible and
// names the field, both values and what to do.
func EnsureStreams(ctx context.Context, c *Conn, run subjects.Run, o subjects.StreamOptions) error {
	return errors.ErrUnsupported
}

// DeleteRun removes the run's streams, buckets and record. Missing ones are no error.
func DeleteRun(ctx context.Context, c *Conn, run subjects.Run) error { return errors.ErrUnsupported }

// StreamState says how much a stream holds and up to which sequence.
func StreamState(ctx context.Context, c *Conn, run subjects.Run, s subjects.Stream) (jetstream.StreamState, error) {
	return jetstream.StreamState{}, errors.ErrUnsupported
}

// Purge removes the messages of the stream below the sequence.
func Purge(ctx context.Context, c *Conn, run subjects.Run, s subjects.Stream, below uint64) error {
	return errors.ErrUnsupported
}
