package bus

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// leaseKeyBytes is the size of the secret behind lease tokens.
const leaseKeyBytes = 32

// ensureLeaseKey makes the secret once; whoever comes second keeps the first's.
func ensureLeaseKey(ctx context.Context, c *Conn, run subjects.Run) error {
	key := make([]byte, leaseKeyBytes)
	rand.Read(key) //nolint:errcheck // it never fails
	err := inBucket(ctx, c, "make lease key", run.KeysBucket(), subjects.LeaseKeyName, func(ctx context.Context, kv jetstream.KeyValue) error {
		_, err := kv.Create(ctx, subjects.LeaseKeyName, key)
		return err
	})
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// LeaseKey reads the secret that the run's lease tokens are made with;
// ErrPermission for roles that may not, ErrNotFound when the run has none.
func LeaseKey(ctx context.Context, c *Conn, run subjects.Run) (key []byte, err error) {
	err = inBucket(ctx, c, "read lease key", run.KeysBucket(), subjects.LeaseKeyName, func(ctx context.Context, kv jetstream.KeyValue) error {
		e, err := kv.Get(ctx, subjects.LeaseKeyName)
		if err == nil {
			key = e.Value()
		}
		return err
	})
	if errors.Is(err, ErrNoStream) {
		err = &APIError{Op: "read lease key", Subject: string(run), Kind: ErrNotFound, Description: "the run has no keys"}
	}
	return key, err
}

// CopyLeaseKey gives a run the secret of another one, whose trajectories are
// copied into it. A run without one, whose groups are from outside, leaves it its own.
func CopyLeaseKey(ctx context.Context, from *Conn, source subjects.Run, to *Conn, run subjects.Run) error {
	key, err := LeaseKey(ctx, from, source)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return inBucket(ctx, to, "copy lease key", run.KeysBucket(), subjects.LeaseKeyName, func(ctx context.Context, kv jetstream.KeyValue) error {
		_, err := kv.Put(ctx, subjects.LeaseKeyName, key)
		return err
	})
}
