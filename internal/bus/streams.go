package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// EnsureStreams creates the run's streams, task consumer and key-value buckets,
// or checks those that exist. A difference that matters is ErrIncompatible and
// names the field, both values and what to do. A limit of ROLLOUTS or TELEMETRY
// that is set in o is applied to an existing stream.
func EnsureStreams(ctx context.Context, c *Conn, run subjects.Run, o subjects.StreamOptions) error {
	if err := run.Validate(); err != nil {
		return err
	}
	for _, s := range subjects.Streams() {
		if err := ensureStream(ctx, c, run.StreamConfig(s, o), explicitBytes(s, o)); err != nil {
			return err
		}
	}
	if err := ensureTaskConsumer(ctx, c, run); err != nil {
		return err
	}
	return ensureBuckets(ctx, c, run, o)
}

// explicitBytes is the limit the user set for the stream, 0 for none.
func explicitBytes(s subjects.Stream, o subjects.StreamOptions) int64 {
	switch s {
	case subjects.Rollouts:
		return o.RolloutBytes
	case subjects.Telemetry:
		return o.TelemetryBytes
	}
	return 0
}

func ensureStream(ctx context.Context, c *Conn, want jetstream.StreamConfig, maxBytes int64) error {
	return guarded(ctx, c, "create stream", want.Name, func(ctx context.Context) error {
		old, err := c.js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			_, err = c.js.CreateStream(ctx, want)
			if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				return storageHint(err, want)
			}
			old, err = c.js.Stream(ctx, want.Name) // somebody was faster
		}
		if err != nil {
			return noJetStream("create stream", want.Name, err)
		}
		have := old.CachedInfo().Config
		if err := compareStream(have, want); err != nil {
			return err
		}
		if maxBytes == 0 || maxBytes == have.MaxBytes {
			return nil
		}
		have.MaxBytes = maxBytes
		_, err = c.js.UpdateStream(ctx, have)
		return storageHint(err, have)
	})
}

// noJetStream tells a server without JetStream, whose API nobody answers, from
// other errors of that API.
func noJetStream(op, subject string, err error) error {
	if !errors.Is(err, nats.ErrNoResponders) {
		return err
	}
	return &APIError{Op: op, Subject: subject, Kind: ErrNoJetStream, Description: "nobody answers for it on this server; start it with JetStream (nats-server -js), or give the account JetStream"}
}

// storageHint says what to do when the server cannot reserve the stream's limit.
func storageHint(err error, cfg jetstream.StreamConfig) error {
	err = classify("create stream", cfg.Name, err)
	var api *APIError
	if errors.As(err, &api) && errors.Is(api.Kind, ErrDiskFull) {
		api.Description += fmt.Sprintf("; the stream may hold %d MiB, which the server sets aside at once: raise max_file_store in its configuration (headrace auth init writes one that does), or lower the recipe's limits", cfg.MaxBytes>>20)
	}
	return err
}

// field is one setting that two configurations must agree on.
type field struct {
	name       string
	have, want any
	ok         bool
}

// compareStream checks what correctness rests on; sizes, replicas and
// compression are the operator's business.
func compareStream(have, want jetstream.StreamConfig) error {
	fields := []field{
		{"subjects", have.Subjects, want.Subjects, slices.Equal(have.Subjects, want.Subjects)},
		{"retention", have.Retention, want.Retention, have.Retention == want.Retention},
		{"storage", have.Storage, want.Storage, have.Storage == want.Storage},
		{"discard", have.Discard, want.Discard, have.Discard == want.Discard},
		{"discard_new_per_subject", have.DiscardNewPerSubject, want.DiscardNewPerSubject, have.DiscardNewPerSubject == want.DiscardNewPerSubject},
		{"max_msgs_per_subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject, same(have.MaxMsgsPerSubject, want.MaxMsgsPerSubject)},
		{"max_msgs", have.MaxMsgs, want.MaxMsgs, same(have.MaxMsgs, want.MaxMsgs)},
		{"max_msg_size", have.MaxMsgSize, want.MaxMsgSize, same(have.MaxMsgSize, want.MaxMsgSize)},
		{"max_age", have.MaxAge, want.MaxAge, have.MaxAge == want.MaxAge || want.Discard == jetstream.DiscardOld},
		{"allow_direct", have.AllowDirect, want.AllowDirect, have.AllowDirect || !want.AllowDirect},
		{"duplicate_window", have.Duplicates, want.Duplicates, have.Duplicates >= want.Duplicates},
		{"no_ack", have.NoAck, want.NoAck, have.NoAck == want.NoAck},
		{"sealed", have.Sealed, want.Sealed, have.Sealed == want.Sealed},
	}
	return compare("check stream", have.Name, fields, "nats stream rm "+have.Name)
}

// same compares limits, whose "none" is 0 on the way in and -1 on the way out.
func same[T int32 | int64](a, b T) bool { return max(a, 0) == max(b, 0) }

func compare(op, name string, fields []field, remove string) error {
	for _, f := range fields {
		if !f.ok {
			return &APIError{Op: op, Subject: name, Kind: ErrIncompatible, Description: fmt.Sprintf(
				"%s is %v, this version needs %v; use another run name, or delete what is there: %s", f.name, f.have, f.want, remove)}
		}
	}
	return nil
}

func ensureTaskConsumer(ctx context.Context, c *Conn, run subjects.Run) error {
	stream, want := run.StreamName(subjects.Tasks), subjects.TaskConsumerConfig(LeaseTime)
	return guarded(ctx, c, "create consumer", stream, func(ctx context.Context) error {
		have, err := c.js.Consumer(ctx, stream, want.Durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			_, err = c.js.CreateOrUpdateConsumer(ctx, stream, want) // the same from everybody, so racing is harmless
			return err
		}
		if err != nil {
			return err
		}
		h := have.CachedInfo().Config
		return compare("check consumer", stream+"/"+want.Durable, []field{
			{"ack_policy", h.AckPolicy, want.AckPolicy, h.AckPolicy == want.AckPolicy},
			{"ack_wait", h.AckWait, want.AckWait, h.AckWait >= want.AckWait},
			{"max_deliver", h.MaxDeliver, want.MaxDeliver, h.MaxDeliver == want.MaxDeliver},
			{"filter_subject", h.FilterSubject, want.FilterSubject, h.FilterSubject == want.FilterSubject},
		}, "nats consumer rm "+stream+" "+want.Durable)
	})
}

// DeleteRun removes the run's streams, buckets and record. Missing ones are no error.
func DeleteRun(ctx context.Context, c *Conn, run subjects.Run) error {
	for _, s := range subjects.Streams() {
		if err := deleteStream(ctx, c, run.StreamName(s)); err != nil {
			return err
		}
	}
	for _, bucket := range []string{run.EnginesBucket(), run.KeysBucket()} {
		if err := deleteStream(ctx, c, subjects.BucketStream(bucket)); err != nil {
			return err
		}
	}
	return removeKey(ctx, c, subjects.RunsBucket, string(run))
}

func deleteStream(ctx context.Context, c *Conn, name string) error {
	err := guarded(ctx, c, "delete stream", name, func(ctx context.Context) error { return c.js.DeleteStream(ctx, name) })
	if errors.Is(err, ErrNoStream) {
		return nil
	}
	return err
}

// StreamState says how much a stream holds and up to which sequence.
func StreamState(ctx context.Context, c *Conn, run subjects.Run, s subjects.Stream) (jetstream.StreamState, error) {
	var state jetstream.StreamState
	name := run.StreamName(s)
	err := guarded(ctx, c, "look up stream", name, func(ctx context.Context) error {
		st, err := c.js.Stream(ctx, name)
		if err == nil {
			state = st.CachedInfo().State
		}
		return err
	})
	return state, err
}

// StreamLimits is the configuration and the state of one of the run's streams.
func StreamLimits(ctx context.Context, c *Conn, run subjects.Run, s subjects.Stream) (config jetstream.StreamConfig, state jetstream.StreamState, err error) {
	name := run.StreamName(s)
	err = guarded(ctx, c, "look at", name, func(ctx context.Context) error {
		st, err := c.js.Stream(ctx, name)
		if err == nil {
			config, state = st.CachedInfo().Config, st.CachedInfo().State
		}
		return err
	})
	return config, state, err
}

// Purge removes the messages of the stream below the sequence.
func Purge(ctx context.Context, c *Conn, run subjects.Run, s subjects.Stream, below uint64) error {
	name := run.StreamName(s)
	return guarded(ctx, c, "purge", name, func(ctx context.Context) error {
		st, err := c.js.Stream(ctx, name)
		if err != nil || below <= 1 {
			return err
		}
		return st.Purge(ctx, jetstream.WithPurgeSequence(below))
	})
}
