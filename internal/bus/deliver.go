package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/subjects"
)

const (
	fullMin     = 100 * time.Millisecond
	fullMax     = 5 * time.Second
	maxAttempts = 8 // of a message that gets no answer although the server is there
	restAfter   = 2 // failures after which a message no longer holds others back
)

// store publishes one message until it is durable: the same id each time. A full
// stream and a busy server are waited for as long as ctx lasts, a message that
// gets no answer for a bounded number of attempts. rest is called when the
// message does not get through for a reason that may be its own.
func (p *Publisher) store(ctx context.Context, hdr nats.Header, data []byte, rest func()) (pubAck, error) {
	blocked := false
	defer func() { p.block(&blocked, false) }()
	failures := 0
	for n := 1; ; n++ {
		ack, err := p.conn.publish(ctx, "publish to", p.subject, hdr, data)
		if err == nil {
			p.acknowledged(ack)
			return ack, nil
		}
		p.observe(err, &blocked)
		low, high := retryMin, retryMax
		switch {
		case errors.Is(err, ErrStreamFull):
			low, high = fullMin, fullMax
		case errors.Is(err, ErrBusy):
		case retryable(err):
			if !p.conn.isUp() { // nothing is known about this message yet
				break
			}
			if failures++; failures == restAfter {
				rest()
			}
			if failures >= maxAttempts {
				return ack, err
			}
		default:
			return ack, err
		}
		cause := pause(ctx, backoff(n, low, high))
		if cause == nil {
			cause = p.conn.awaitUp(ctx)
		}
		if cause != nil {
			return ack, fmt.Errorf("%w: %w", err, cause)
		}
	}
}

// retryable reports whether an error may pass by itself.
func retryable(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, ErrNoStream) || errors.Is(err, ErrNoJetStream)
}

// observe counts a failure and narrows the window of a server that cannot keep up.
func (p *Publisher) observe(err error, blocked *bool) {
	full := errors.Is(err, ErrStreamFull)
	p.block(blocked, full)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Retries++
	switch {
	case full:
		p.stats.Full++
	case errors.Is(err, ErrBusy):
		p.stats.Busy++
		p.window = max(p.window/2, p.cfg.BundleBytes)
	}
}

// block keeps count of the messages that the stream has no room for.
func (p *Publisher) block(was *bool, now bool) {
	if *was == now {
		return
	}
	*was = now
	p.mu.Lock()
	defer p.mu.Unlock()
	if !now {
		p.full--
		return
	}
	if p.full++; p.full == 1 {
		p.cfg.Log.Warn().Str("subject", p.subject).Msg("rollouts stream is full, waiting for room")
	}
}

// publishLarge publishes a body that no single message can carry, in parts. One
// such body travels at a time.
func (p *Publisher) publishLarge(ctx context.Context, e subjects.IndexEntry, body []byte, limit int64) (subjects.Address, error) {
	seq, err := p.publishAlone(ctx, e, body, limit)
	if err != nil {
		return subjects.Address{}, fmt.Errorf("publish trajectory %s: %w", e.ID(), err)
	}
	return subjects.Address{Seq: seq}, nil
}

func (p *Publisher) publishAlone(ctx context.Context, e subjects.IndexEntry, body []byte, limit int64) (seq uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)() // Close gives it up
	if err := p.enter(len(body)); err != nil {
		return 0, err
	}
	var ack pubAck
	defer func() { p.exit(len(body), ack, err) }()
	select {
	case p.large <- struct{}{}:
		defer func() { <-p.large }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	p.mu.Lock()
	whole := p.header([]subjects.IndexEntry{e}, 0)
	p.mu.Unlock()
	return publishParts(ctx, whole, body, limit, func(ctx context.Context, hdr nats.Header, data []byte) (uint64, error) {
		hdr[subjects.HeaderProducer] = []string{p.cfg.Producer}
		p.mu.Lock()
		p.counter++
		hdr[subjects.HeaderCounter], hdr[subjects.HeaderLife] = []string{strconv.FormatUint(p.counter, 10)}, []string{subjects.Life(p.life, p.stored)}
		p.mu.Unlock()
		ack, err = p.store(ctx, hdr, data, func() {})
		return ack.Seq, err
	})
}

// acknowledged counts a message that is stored.
func (p *Publisher) acknowledged(ack pubAck) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ack.Duplicate {
		p.stored++
	}
}

func (p *Publisher) enter(bytes int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	p.wg.Add(1)
	p.stats.Waiting++
	p.stats.PendingBytes += bytes
	return nil
}

func (p *Publisher) exit(bytes int, ack pubAck, err error) {
	defer p.wg.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Waiting--
	p.stats.PendingBytes -= bytes
	if err != nil {
		p.stats.Failed++
		return
	}
	p.count(ack, 1, bytes)
}
