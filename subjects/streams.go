package subjects

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StreamOptions are the parts of the stream configuration a user may choose.
type StreamOptions struct {
	// Replicas of every stream: 1 (default) on a single server, 3 on a cluster.
	Replicas int
	// RolloutBytes bounds ROLLOUTS; a full stream holds producers back. Default 32 GiB.
	RolloutBytes int64
	// TelemetryBytes bounds TELEMETRY, oldest dropped first. Default 256 MiB.
	TelemetryBytes int64
}

const (
	defaultRolloutBytes   = 32 << 30
	defaultTelemetryBytes = 256 << 20
	ledgerBytes           = 4 << 30
	deadLetterBytes       = 1 << 30
	taskBytes             = 1 << 30
	duplicateWindow       = 2 * time.Minute
)

func (o StreamOptions) withDefaults() StreamOptions {
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.RolloutBytes == 0 {
		o.RolloutBytes = defaultRolloutBytes
	}
	if o.TelemetryBytes == 0 {
		o.TelemetryBytes = defaultTelemetryBytes
	}
	return o
}

// StreamConfig is the configuration of one stream of the run. Every field that
// is set has its reason beside it.
func (r Run) StreamConfig(s Stream, o StreamOptions) jetstream.StreamConfig {
	o = o.withDefaults()
	c := jetstream.StreamConfig{
		Name:        r.StreamName(s),
		Description: "headrace run " + string(r),
		Subjects:    []string{r.Filter(s)},
		Storage:     jetstream.FileStorage,   // a run outlives its server
		Replicas:    o.Replicas,              // the user's choice of durability
		Discard:     jetstream.DiscardNew,    // full means back-pressure, never silent loss
		Duplicates:  duplicateWindow,         // absorbs a publisher's retries; ids cost ~140 B each, so minutes, not hours
		AllowDirect: true,                    // reads by sequence do not go through the leader's API queue
		Retention:   jetstream.LimitsPolicy,  // the log is the run: reading removes nothing
		Compression: jetstream.NoCompression, // measured to cost half the publish rate; bodies hardly compress
	}
	switch s {
	case Tasks:
		c.Retention = jetstream.WorkQueuePolicy // a lease is gone once its trajectory is durable
		c.MaxMsgsPerSubject = 1                 // one message per attempt ...
		c.DiscardNewPerSubject = true           // ... so that issuing a task twice is refused, without a window
		c.MaxBytes = taskBytes                  // tasks are small; a runaway issuer is stopped
		c.AllowDirect = false                   // only the consumer reads it
	case Rollouts:
		c.MaxBytes = o.RolloutBytes // producers wait when it is full
	case Ledger:
		c.MaxBytes = ledgerBytes // a few KB a step: a bound against a fault, not a limit in use
		c.DenyDelete = true      // decisions are never edited
	case Weights:
		c.MaxBytes = ledgerBytes // events only; weights themselves travel through shared storage
	case Telemetry:
		c.Discard = jetstream.DiscardOld // old gauges are worth less than a running fleet
		c.MaxBytes = o.TelemetryBytes
		c.Duplicates = time.Second // nobody retries a gauge
	case DeadLetter:
		c.MaxBytes = deadLetterBytes
	}
	return c
}

// MaxLeaseBatch bounds the tasks of one pull.
const MaxLeaseBatch = 1024

// TaskConsumerConfig is the shared consumer that hands out leases.
func TaskConsumerConfig(ackWait time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       TaskConsumer,
		AckPolicy:     jetstream.AckExplicitPolicy, // acked only after the trajectory is durable
		AckWait:       ackWait,                     // a dead producer's leases come back after this; live ones heartbeat at a third of it
		MaxDeliver:    -1,                          // how often a slot is tried is the grouper's policy, not the queue's
		MaxAckPending: 1 << 16,                     // thousands of live episodes a process, many processes
		MaxWaiting:    4096,                        // pulls of a large fleet
		// Nobody asks for more at once, or for longer: the pulls that wait are
		// served in turn, one task each.
		MaxRequestBatch:   MaxLeaseBatch,
		MaxRequestExpires: time.Minute,
	}
}
