package bus

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/headrace/headrace/subjects"
)

// PublisherConfig configures a [Publisher].
type PublisherConfig struct {
	Run      subjects.Run
	Producer string // a valid subject token; unique among live producers
	// BundleBytes bounds the bodies of one bundle. Default 256 KiB. A larger
	// body travels alone.
	BundleBytes int
	// BundleCount bounds the trajectories of one bundle. Default 64, most [subjects.MaxBundle].
	BundleCount int
	// WindowBytes bounds the bodies that are published and not acknowledged.
	// Default and most 4 MiB: the server's ingest queue is shared by all producers.
	WindowBytes int
	// HeldBytes bounds the encoded bodies in memory, from before a body is encoded
	// until it is durable or given up. Callers of Publish wait for room, so a
	// full stream costs this and no more. A body that is larger waits for all of
	// it. Default 64 MiB.
	HeldBytes int
	Log       zerolog.Logger
}

const (
	defaultBundleBytes = 256 << 10
	defaultBundleCount = 64
	maxWindowBytes     = 4 << 20
	defaultHeldBytes   = 64 << 20
	perEntry           = 512 // bytes of headers to reserve for one index entry
)

func (c PublisherConfig) withDefaults() PublisherConfig {
	if c.BundleBytes <= 0 {
		c.BundleBytes = defaultBundleBytes
	}
	if c.BundleCount <= 0 {
		c.BundleCount = defaultBundleCount
	}
	c.BundleCount = min(c.BundleCount, subjects.MaxBundle)
	if c.WindowBytes <= 0 || c.WindowBytes > maxWindowBytes {
		c.WindowBytes = maxWindowBytes
	}
	if c.HeldBytes <= 0 {
		c.HeldBytes = defaultHeldBytes
	}
	return c
}

// Publisher publishes one producer's trajectories in bundles: at once when
// nothing is in flight; what finishes meanwhile forms the next bundle. It is
// safe for concurrent use.
type Publisher struct {
	conn    *Conn
	cfg     PublisherConfig
	subject string
	ctx     context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
	large   chan struct{} // held by the one body that travels in parts
	held    *semaphore.Weighted

	mu      sync.Mutex
	closed  bool
	counter uint64
	life    string   // names this publisher among those of its producer
	stored  uint64   // messages acknowledged, duplicates apart
	open    *batch   // collects
	queue   []*batch // full, waiting for room in the window
	active  int      // batches in flight that are likely to be acknowledged soon
	flight  int      // bytes in flight
	window  int      // bytes that may be in flight now
	full    int      // batches that the stream had no room for
	stats   PublisherStats
}

// NewPublisher returns a publisher; Close it.
func NewPublisher(c *Conn, cfg PublisherConfig) *Publisher {
	cfg = cfg.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	return &Publisher{conn: c, cfg: cfg, subject: cfg.Run.RolloutSubject(cfg.Producer), ctx: ctx, stop: stop,
		large: make(chan struct{}, 1), held: semaphore.NewWeighted(int64(cfg.HeldBytes)), window: cfg.WindowBytes,
		life: rand.Text()[:8]}
}

// Publish encodes t and returns once it is durable, with its address. A full
// stream, a busy or restarting server are waited for, until ctx ends; after
// that it is unknown whether the trajectory was published, and publishing it
// again is safe. ErrMalformed means that t cannot stand in an index.
func (p *Publisher) Publish(ctx context.Context, t *subjects.Trajectory) (subjects.Address, error) {
	release, err := p.hold(ctx, t.SizeHint())
	if err != nil {
		return subjects.Address{}, fmt.Errorf("publish trajectory %s: %w", t.ID(), err)
	}
	defer release()
	buf := newBuffer()
	if err := subjects.EncodeTrajectory(buf, t); err != nil {
		return subjects.Address{}, fmt.Errorf("publish trajectory %s: %w", t.ID(), err)
	}
	return p.publish(ctx, t.Index(), buf)
}

// PublishEncoded is Publish for a body that is already encoded. Offset, Length
// and Checksum of e are filled in; body may be reused when it returns.
func (p *Publisher) PublishEncoded(ctx context.Context, e subjects.IndexEntry, body []byte) (subjects.Address, error) {
	release, err := p.hold(ctx, len(body))
	if err != nil {
		return subjects.Address{}, fmt.Errorf("publish trajectory %s: %w", e.ID(), err)
	}
	defer release()
	buf := newBuffer()
	buf.Write(body)
	return p.publish(ctx, e, buf)
}

// hold waits for room for a body of n bytes.
func (p *Publisher) hold(ctx context.Context, n int) (release func(), err error) {
	size := int64(min(n, p.cfg.HeldBytes))
	if p.held.TryAcquire(size) {
		return func() { p.held.Release(size) }, nil
	}
	p.wait(1)
	defer p.wait(-1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)() // Close gives it up
	if err := p.held.Acquire(ctx, size); err != nil {
		return nil, err
	}
	return func() { p.held.Release(size) }, nil
}

// wait counts a trajectory that has no room yet.
func (p *Publisher) wait(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Waiting += n
}

// publish owns buf.
func (p *Publisher) publish(ctx context.Context, e subjects.IndexEntry, buf *bytes.Buffer) (subjects.Address, error) {
	e.Offset, e.Length, e.Checksum = 0, buf.Len(), subjects.Checksum(buf.Bytes())
	if _, err := subjects.ParseIndex(e.String()); err != nil {
		return subjects.Address{}, fmt.Errorf("publish trajectory %s: %w: %w", e.ID(), ErrMalformed, err)
	}
	if limit := p.conn.MaxPayload(); int64(buf.Len())+partSlack > min(limit, maxPartSize) {
		return p.publishLarge(ctx, e, buf.Bytes(), limit)
	}
	b, i, err := p.join(e, buf)
	if err != nil {
		return subjects.Address{}, fmt.Errorf("publish trajectory %s: %w", e.ID(), err)
	}
	select {
	case <-b.done:
		if b.err != nil {
			return subjects.Address{}, fmt.Errorf("publish trajectory %s: %w", e.ID(), b.err)
		}
		return subjects.Address{Seq: b.seq, Index: i}, nil
	case <-ctx.Done():
		p.leave(b)
		return subjects.Address{}, fmt.Errorf("publish trajectory %s: %w", e.ID(), ctx.Err())
	}
}

// Close waits for what is being published, until ctx ends, then gives it up.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	defer context.AfterFunc(ctx, p.stop)()
	p.wg.Wait()
	gaveUp := p.ctx.Err() != nil
	p.stop()
	if gaveUp {
		return fmt.Errorf("close publisher: %w", ctx.Err())
	}
	return nil
}

// PublisherStats counts what a publisher did; the last three are of now.
type PublisherStats struct {
	Trajectories uint64 // durable
	Bundles      uint64 // durable messages
	Bytes        uint64 // durable bodies
	Duplicates   uint64 // bundles the server already had
	Retries      uint64 // messages sent again
	Full         uint64 // answers "stream is full"
	Busy         uint64 // answers "cannot keep up"
	Failed       uint64 // trajectories given up
	Waiting      int    // trajectories not yet durable
	PendingBytes int    // their bodies, as far as they are encoded
	Blocked      bool   // the stream is full
}

// Stats returns the counts so far.
func (p *Publisher) Stats() PublisherStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Blocked = p.full > 0
	return s
}
