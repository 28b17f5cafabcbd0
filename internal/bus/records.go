package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// EngineTTL is how long an engine's entry lives without a refresh; engines
// refresh it every third of that.
const EngineTTL = 30 * time.Second

// ensureBuckets creates the three buckets or checks what matters of them, and
// makes the run's secrets.
func ensureBuckets(ctx context.Context, c *Conn, run subjects.Run, o subjects.StreamOptions) error {
	err := ensureBucket(ctx, c, jetstream.KeyValueConfig{
		Bucket: subjects.RunsBucket, Description: "headrace runs", Storage: jetstream.FileStorage, Replicas: max(o.Replicas, 1)})
	if err != nil {
		return err
	}
	err = ensureBucket(ctx, c, jetstream.KeyValueConfig{
		Bucket: run.EnginesBucket(), Description: "headrace engines of " + string(run), TTL: EngineTTL,
		Storage: jetstream.FileStorage, Replicas: max(o.Replicas, 1)}) // engines outlive the server, and nobody else may make the bucket again
	if err != nil {
		return err
	}
	err = ensureBucket(ctx, c, jetstream.KeyValueConfig{
		Bucket: run.KeysBucket(), Description: "headrace keys of " + string(run), Storage: jetstream.FileStorage, Replicas: max(o.Replicas, 1)})
	if err != nil {
		return err
	}
	return ensureLeaseKey(ctx, c, run)
}

func ensureBucket(ctx context.Context, c *Conn, want jetstream.KeyValueConfig) error {
	return guarded(ctx, c, "create bucket", want.Bucket, func(ctx context.Context) error {
		_, err := c.js.CreateKeyValue(ctx, want)
		if !errors.Is(err, jetstream.ErrBucketExists) {
			return err
		}
		kv, err := c.js.KeyValue(ctx, want.Bucket)
		if err != nil {
			return err
		}
		have, err := kv.Status(ctx)
		if err != nil {
			return err
		}
		return compare("check bucket", want.Bucket, []field{{"ttl", have.TTL(), want.TTL, have.TTL() == want.TTL}}, "nats kv del "+want.Bucket)
	})
}

// inBucket runs fn on a bucket and types its errors.
func inBucket(ctx context.Context, c *Conn, op, bucket, key string, fn func(context.Context, jetstream.KeyValue) error) error {
	return guarded(ctx, c, op, bucket+"/"+key, func(ctx context.Context) error {
		kv, err := c.js.KeyValue(ctx, bucket)
		if err != nil {
			return noJetStream(op, bucket, err)
		}
		return fn(ctx, kv)
	})
}

func removeKey(ctx context.Context, c *Conn, bucket, key string) error {
	err := inBucket(ctx, c, "remove", bucket, key, func(ctx context.Context, kv jetstream.KeyValue) error { return kv.Purge(ctx, key) })
	if errors.Is(err, ErrNoStream) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func putJSON(ctx context.Context, c *Conn, bucket, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("put %s/%s: %w", bucket, key, err)
	}
	return inBucket(ctx, c, "put", bucket, key, func(ctx context.Context, kv jetstream.KeyValue) error {
		_, err := kv.Put(ctx, key, b)
		return err
	})
}

// CreateRun stores the record of a new run; ErrConflict when the run exists.
func CreateRun(ctx context.Context, c *Conn, r *subjects.RunRecord) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("create run %s: %w", r.Run, err)
	}
	tries := 0
	err = inBucket(ctx, c, "create run", subjects.RunsBucket, string(r.Run), func(ctx context.Context, kv jetstream.KeyValue) error {
		tries++
		_, err := kv.Create(ctx, string(r.Run), b)
		return err
	})
	if errors.Is(err, ErrConflict) && tries > 1 { // with this record, if the answer to the first try was lost
		if have, err := LookupRun(ctx, c, r.Run); err == nil && have.Created == r.Created && have.Hash == r.Hash {
			return nil
		}
	}
	return err
}

// PutRun stores the record of a run, new or not.
func PutRun(ctx context.Context, c *Conn, r *subjects.RunRecord) error {
	return putJSON(ctx, c, subjects.RunsBucket, string(r.Run), r)
}

// LookupRun reads the record of a run; ErrNotFound when there is none,
// ErrIncompatible when its messages have another schema than this build's.
func LookupRun(ctx context.Context, c *Conn, run subjects.Run) (*subjects.RunRecord, error) {
	r, _, err := lookupRun(ctx, c, run)
	return r, err
}

// lookupRun also gives the record's revision in its bucket.
func lookupRun(ctx context.Context, c *Conn, run subjects.Run) (*subjects.RunRecord, uint64, error) {
	var r subjects.RunRecord
	var revision uint64
	err := inBucket(ctx, c, "look up run", subjects.RunsBucket, string(run), func(ctx context.Context, kv jetstream.KeyValue) error {
		e, err := kv.Get(ctx, string(run))
		if err != nil {
			return err
		}
		revision = e.Revision()
		return json.Unmarshal(e.Value(), &r)
	})
	if errors.Is(err, ErrNoStream) { // a bus without any run
		err = &APIError{Op: "look up run", Subject: string(run), Kind: ErrNotFound, Description: "no run has been started on this bus"}
	}
	if err == nil && r.Schema != subjects.SchemaVersion {
		err = &APIError{Op: "look up run", Subject: string(run), Kind: ErrIncompatible, Description: fmt.Sprintf(
			"its messages have schema %d, this build's have %d; use the version that created it, %s", r.Schema, subjects.SchemaVersion, r.Version)}
	}
	if err != nil {
		return nil, 0, err
	}
	return &r, revision, nil
}

// Runs lists the records of all runs, by name; for credentials of one run, its own.
func Runs(ctx context.Context, c *Conn) ([]subjects.RunRecord, error) {
	runs, err := list(ctx, c, subjects.RunsBucket, func(a, b subjects.RunRecord) int { return cmp.Compare(a.Run, b.Run) })
	own := c.Identity().Run
	if !errors.Is(err, ErrPermission) || own == "" {
		return runs, err
	}
	r, err := LookupRun(ctx, c, own)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []subjects.RunRecord{*r}, nil
}

// list reads every value of a bucket; without the bucket there are none.
func list[T any](ctx context.Context, c *Conn, bucket string, order func(a, b T) int) ([]T, error) {
	var out []T
	err := inBucket(ctx, c, "list", bucket, "*", func(context.Context, jetstream.KeyValue) error { return nil })
	if errors.Is(err, ErrNoStream) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = EachLatest(ctx, c, subjects.BucketStream(bucket), subjects.BucketSubject(bucket, ">"), func(m *Msg) error {
		var v T
		if m.Header.Get("KV-Operation") == "" && json.Unmarshal(m.Data, &v) == nil {
			out = append(out, v)
		}
		return nil
	})
	slices.SortFunc(out, order)
	return out, err
}
