package trainerbridge

import (
	"container/list"
	"fmt"
	"slices"
	"sync"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// bundle is a ROLLOUTS message in memory; its bodies are validated once.
type bundle struct {
	*bus.Bundle
	mu    sync.Mutex
	views []*subjects.BodyView // by item; nil until validated

	// The cache's: trajectories without their place in a batch, and its place
	// in the order of eviction.
	open int
	size int
	elem *list.Element
	lean bool // its data is gone, but for the segments that somebody needs
}

func newBundle(b *bus.Bundle) *bundle {
	return &bundle{Bundle: b, views: make([]*subjects.BodyView, len(b.Items))}
}

// view validates the i-th body, the first time it is asked for, and returns it.
func (b *bundle) view(i, vocab int) (*subjects.BodyView, error) {
	if i < 0 || i >= len(b.Items) {
		return nil, fmt.Errorf("%w: bundle of %d", subjects.ErrMalformed, len(b.Items))
	}
	if err := b.Items[i].Err; err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.views[i] != nil {
		return b.views[i], nil
	}
	v, err := subjects.Inspect(b.Body(i), &b.Items[i].Entry, vocab)
	if err != nil {
		return nil, err
	}
	b.views[i] = &v
	return &v, nil
}

// viewBytes is about what a validated body takes beside its bytes, segmentBytes
// what each of its segments does.
const (
	viewBytes    = 1 << 10
	segmentBytes = 112
)

// bytes is about what the bundle takes in memory.
func (b *bundle) bytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.Data) + viewBytes*len(b.Items)
	for _, v := range b.views {
		if v != nil {
			n += segmentBytes * len(v.Segments)
		}
	}
	return n
}

// strip copies the segments of some trajectories out of the bundle and lets go
// of everything else. Those that are malformed say so when they are asked for.
func (b *bundle) strip(items []int, vocab int) {
	for _, i := range items {
		v, err := b.view(i, vocab)
		switch {
		case i < 0 || i >= len(b.Items):
		case err != nil:
			b.Items[i].Err = err
		default:
			b.views[i] = &subjects.BodyView{Segments: copySegments(v.Segments)}
		}
	}
	b.Data, b.Header, b.lean = nil, nil, true
}

// copySegments moves segments into one piece of memory of their own.
func copySegments(segments []subjects.SegmentView) []subjects.SegmentView {
	n := 0
	for i := range segments {
		s := &segments[i]
		n += len(s.Tokens) + len(s.Logprobs) + len(s.Versions) + len(s.LossMask)
	}
	memory, out := make([]byte, 0, n), slices.Clone(segments)
	move := func(p *[]byte) {
		from := len(memory)
		memory = append(memory, *p...)
		*p = memory[from:len(memory):len(memory)]
	}
	for i := range out {
		s := &out[i]
		move(&s.Tokens)
		move(&s.Logprobs)
		move(&s.Versions)
		move(&s.LossMask)
	}
	return out
}

// bodies keeps bundles from their inspection, or a fetch, until their
// trajectories are in batches, bounded in bytes. What is over the bound goes: bundles
// with nothing left to place first, then the oldest. It is safe for concurrent use.
type bodies struct {
	limit int

	mu    sync.Mutex
	used  int
	bySeq map[uint64]*bundle
	live  *list.List // of *bundle, oldest first
	done  *list.List // the same, all placed
}

func newBodies(limit int) *bodies {
	return &bodies{limit: limit, bySeq: map[uint64]*bundle{}, live: list.New(), done: list.New()}
}

// get is the bundle with that sequence, nil when it is not kept.
func (c *bodies) get(seq uint64) *bundle {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bySeq[seq]
}

// put keeps a bundle, unless there is one or it is larger than the bound.
func (c *bodies) put(b *bundle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size := b.bytes()
	if c.bySeq[b.Seq] != nil || size > c.limit {
		return
	}
	b.size = size
	for i := range b.Items {
		if e := &b.Items[i].Entry; b.Items[i].Err == nil && e.Kind == subjects.Train && e.Status.Trained() {
			b.open++
		}
	}
	c.bySeq[b.Seq] = b
	c.used += b.size
	b.elem = c.queue(b).PushBack(b)
	for c.used > c.limit {
		c.evict()
	}
}

func (c *bodies) queue(b *bundle) *list.List {
	if b.open == 0 {
		return c.done
	}
	return c.live
}

func (c *bodies) evict() {
	from := c.done
	if from.Len() == 0 {
		from = c.live
	}
	b := from.Remove(from.Front()).(*bundle)
	delete(c.bySeq, b.Seq)
	c.used -= b.size
}

// settle notes that a trajectory of a bundle found its place, or will never.
func (c *bodies) settle(seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.bySeq[seq]
	if b == nil || b.open == 0 {
		return
	}
	if b.open--; b.open == 0 {
		c.live.Remove(b.elem)
		b.elem = c.done.PushBack(b)
	}
}

// size is what is kept: bytes and bundles.
func (c *bodies) size() (bytes, bundles int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used, len(c.bySeq)
}
