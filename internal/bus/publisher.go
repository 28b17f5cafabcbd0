package bus

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/subjects"
)

// PublisherConfig configures a [Publisher].
type PublisherConfig struct {
	Run      subjects.Run
	Producer string // a valid subject token; unique among live producers
	// BundleBytes bounds the bodies of one bundle. Default 256 KiB. A larger
	// body travels alone.
	BundleBytes int
	// BundleCount bounds the trajectories of one bundle. Default 64.
	BundleCount int
	// WindowBytes bounds what is published and not acknowledged. Default 4 MiB,
	// at most that: the server's ingest queue is shared by all producers.
	WindowBytes int
	Log         zerolog.Logger
}

// PublisherStats counts what a publisher did; Waiting and Pending are of now.
type PublisherStats struct {
	Trajectories uint64 // durable
	Bundles      uint64 // durable messages
	Bytes        uint64 // durable bodies
	Duplicates   uint64 // bundles the server already had
	Retries      uint64 // bundles sent again
	Full         uint64 // answers "stream is full"
	Busy         uint64 // answers "cannot keep up"
	Failed       uint64 // trajectories given up
	Waiting      int    // callers of Publish that wait
	PendingBytes int    // bodies not yet durable
	Blocked      bool   // the stream is full now
}

// Publisher publishes one producer's trajectories in bundles: at once when
// nothing is in flight; what finishes meanwhile forms the next bundle. It is
// safe for concurrent use.
type Publisher struct{}

// NewPublisher returns a publisher; Close it.
func NewPublisher(c *Conn, cfg PublisherConfig) *Publisher { return &Publisher{} }

// Publish encodes t and returns once it is durable, with its address. A full
// stream, a busy or restarting server are waited for, until ctx ends; after
// that it is unknown whether the trajectory was published, and publishing it
// again is safe.
func (p *Publisher) Publish(ctx context.Context, t *subjects.Trajectory) (subjects.Address, error) {
	return subjects.Address{}, errors.ErrUnsupported
}

// PublishEncoded is Publish for a body that is already encoded. Offset, Length
// and Checksum of e are filled in; body must not change until it returns.
func (p *Publisher) PublishEncoded(ctx context.Context, e subjects.IndexEntry, body []byte) (subjects.Address, error) {
	return subjects.Address{}, errors.ErrUnsupported
}

// Close waits for what is being published, until ctx ends, then gives it up.
func (p *Publisher) Close(ctx context.Context) error { return nil }

// Stats returns the counts so far.
func (p *Publisher) Stats() PublisherStats { return PublisherStats{} }
