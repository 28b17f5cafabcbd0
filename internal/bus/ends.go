package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// EndRun writes into the run's record why the run ended, unless it says so
// already. It follows the ledger's last entry, which alone decides.
func EndRun(ctx context.Context, c *Conn, run subjects.Run, reason string) error {
	for {
		record, revision, err := lookupRun(ctx, c, run)
		if err != nil || record.Ended != "" {
			return err
		}
		record.Ended = reason
		b, err := json.Marshal(record)
		if err != nil {
			return fmt.Errorf("end run %s: %w", run, err)
		}
		err = inBucket(ctx, c, "end run", subjects.RunsBucket, string(run), func(ctx context.Context, kv jetstream.KeyValue) error {
			_, err := kv.Update(ctx, string(run), b, revision)
			return err
		})
		if !errors.Is(err, ErrConflict) { // else somebody else ended it, as a look will show
			return err
		}
	}
}

// errEnded ends the follower of AwaitRunEnd.
var errEnded = errors.New("ended")

// AwaitRunEnd returns why the run ended once its record says so, ErrNotFound
// when the record is removed, or the error of ctx.
func AwaitRunEnd(ctx context.Context, c *Conn, run subjects.Run) (reason string, err error) {
	filter := subjects.BucketSubject(subjects.RunsBucket, string(run))
	err = FollowLatest(ctx, c, subjects.BucketStream(subjects.RunsBucket), filter, func(m *Msg) error {
		if m.Header.Get("KV-Operation") != "" { // deleted or purged
			return &APIError{Op: "await end of run", Subject: string(run), Kind: ErrNotFound, Description: "the run was removed"}
		}
		var r subjects.RunRecord
		if err := json.Unmarshal(m.Data, &r); err == nil && r.Ended != "" {
			reason = r.Ended
			return errEnded
		}
		return nil
	})
	if errors.Is(err, errEnded) {
		return reason, nil
	}
	return "", err
}
