package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// batch is a bundle on its way out. Its publisher's lock guards it until it is
// sent; afterwards the sender owns it, and done publishes seq and err.
type batch struct {
	entries []subjects.IndexEntry
	body    *bytes.Buffer
	waiting int // callers that still want to know
	cancel  context.CancelFunc
	ctx     context.Context
	idle    bool // no longer counts as active

	done chan struct{}
	seq  uint64
	err  error
}

// join adds a trajectory to the bundle that collects, which may send it, and
// returns its place. It owns buf.
func (p *Publisher) join(e subjects.IndexEntry, buf *bytes.Buffer) (*batch, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, 0, ErrClosed
	}
	if p.open != nil && !p.fits(p.open, buf.Len()) {
		p.seal()
	}
	b := p.open
	if b == nil {
		b = p.newBatch()
		p.open = b
	}
	if b.body == nil && 4*buf.Len() >= p.cfg.BundleBytes {
		b.body = buf // few others will follow: no copy
	} else {
		if b.body == nil {
			b.body = newBundleBuffer(p.cfg.BundleBytes)
		}
		e.Offset = b.body.Len()
		b.body.Write(buf.Bytes())
		freeBuffer(buf)
	}
	b.entries = append(b.entries, e)
	b.waiting++
	p.stats.Waiting++
	p.stats.PendingBytes += e.Length
	place := len(b.entries) - 1
	p.pump()
	return b, place, nil
}

func (p *Publisher) newBatch() *batch {
	b := &batch{entries: newEntries(p.cfg.BundleCount), done: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(p.ctx)
	p.wg.Add(1) // done in settle
	return b
}

func (p *Publisher) fits(b *batch, n int) bool {
	limit := min(int64(p.cfg.BundleBytes), p.conn.MaxPayload()-int64(perEntry*p.cfg.BundleCount))
	return len(b.entries) < p.cfg.BundleCount && int64(b.body.Len()+n) <= limit
}

// seal closes the bundle that collects.
func (p *Publisher) seal() {
	p.queue = append(p.queue, p.open)
	p.open = nil
}

// pump sends what may be sent: full bundles as the window allows, and the one
// that collects when nothing else is in flight.
func (p *Publisher) pump() {
	if p.open != nil && (len(p.open.entries) >= p.cfg.BundleCount || p.open.body.Len() >= p.cfg.BundleBytes) {
		p.seal()
	}
	for len(p.queue) > 0 && p.room(p.queue[0]) {
		p.send(p.queue[0])
		p.queue = p.queue[1:]
	}
	if len(p.queue) == 0 && p.open != nil && p.active == 0 && p.room(p.open) {
		b := p.open
		p.open = nil
		p.send(b)
	}
}

// room reports whether b may be sent now; something always may.
func (p *Publisher) room(b *batch) bool {
	return p.flight == 0 || p.flight+b.body.Len() <= p.window
}

func (p *Publisher) send(b *batch) {
	p.counter++
	p.active++
	p.flight += b.body.Len()
	hdr := p.header(b.entries, p.counter)
	go func() {
		ack, err := p.store(b.ctx, hdr, b.body.Bytes(), func() { p.rest(b) })
		p.finish(b, ack, err)
	}()
}

// rest takes a bundle that does not get through out of the count of active
// ones, so that it holds nobody else back.
func (p *Publisher) rest(b *batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.idle {
		b.idle = true
		p.active--
		p.pump()
	}
}

func (p *Publisher) finish(b *batch, ack pubAck, err error) {
	b.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.idle {
		p.active--
	}
	p.flight -= b.body.Len()
	p.settle(b, ack, err)
	p.pump()
}

// settle counts a bundle that is over and tells its callers.
func (p *Publisher) settle(b *batch, ack pubAck, err error) {
	n, bytes := len(b.entries), b.body.Len()
	p.stats.Waiting -= n
	p.stats.PendingBytes -= bytes
	if err != nil {
		p.stats.Failed += uint64(n)
	} else {
		p.count(ack, n, bytes)
	}
	b.seq, b.err = ack.Seq, err
	freeBuffer(b.body)
	freeEntries(b.entries)
	close(b.done)
	p.wg.Done()
}

func (p *Publisher) count(ack pubAck, trajectories, bytes int) {
	p.stats.Trajectories += uint64(trajectories)
	p.stats.Bytes += uint64(bytes)
	p.stats.Bundles++
	if ack.Duplicate {
		p.stats.Duplicates++
	}
	p.window = min(p.window+p.cfg.BundleBytes/4, p.cfg.WindowBytes)
}

// leave ends a caller's interest; a bundle that nobody waits for is given up.
func (p *Publisher) leave(b *batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.waiting--; b.waiting > 0 {
		return
	}
	b.cancel()
	for i, q := range p.queue {
		if q == b {
			p.queue = append(p.queue[:i], p.queue[i+1:]...)
			p.settle(b, pubAck{}, context.Canceled)
			return
		}
	}
	if p.open == b {
		p.open = nil
		p.settle(b, pubAck{}, context.Canceled)
	}
}

// header is that of one ROLLOUTS message. The lock is held.
func (p *Publisher) header(entries []subjects.IndexEntry, counter uint64) nats.Header {
	index := make([]string, len(entries))
	for i := range entries {
		index[i] = entries[i].String()
	}
	return nats.Header{
		jetstream.MsgIDHeader:   {messageID(entries)},
		subjects.HeaderProducer: {p.cfg.Producer},
		subjects.HeaderCounter:  {strconv.FormatUint(counter, 10)},
		subjects.HeaderLife:     {subjects.Life(p.life, p.stored)},
		subjects.HeaderIndex:    index,
	}
}

// messageID follows from the trajectories alone: whoever publishes the same ones
// in the same bundle again, publishes nothing. Their lease tokens are in it: who
// could guess an id could have somebody else's trajectory taken for a copy.
func messageID(entries []subjects.IndexEntry) string {
	if len(entries) == 1 {
		return name(&entries[0])
	}
	h := sha256.New()
	for i := range entries {
		fmt.Fprintln(h, name(&entries[i]))
	}
	return string(entries[0].Kind) + "/" + entries[0].ID() + "+" + strconv.Itoa(len(entries)-1) + ":" + hex.EncodeToString(h.Sum(nil)[:16])
}

// name is what nobody but who leased the task can call a trajectory.
func name(e *subjects.IndexEntry) string {
	id := string(e.Kind) + "/" + e.ID()
	if e.Token != "" {
		id += "/" + e.Token
	}
	return id
}
