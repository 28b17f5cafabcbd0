package main

import (
	"context"
	"sync"
	"time"

	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/subjects"
)

// device is a simulated accelerator: a pass takes up to batch calls and a fixed
// time, whoever they are from. It keeps its own clock: a pass that follows
// another without a pause begins when that one ended, not when this process
// was woken up, so that the host's timers are not part of what is measured. It
// is a Policy.
type device struct {
	batch int
	pass  time.Duration

	mu     sync.Mutex
	queue  []*call
	wake   chan struct{}
	passes int
	tokens []int32
	probs  []float32
	spans  []subjects.VersionSpan
}

type call struct{ done chan struct{} }

func newDevice(w work, tokens int) *device {
	d := &device{batch: w.batch, pass: w.pass, wake: make(chan struct{}, 1)}
	for i := range tokens {
		d.tokens = append(d.tokens, int32(i+10))
		d.probs = append(d.probs, -1)
	}
	d.tokens[tokens-1] = endOfTurn
	d.spans = []subjects.VersionSpan{{End: int32(tokens), Version: 1}}
	return d
}

// Generate waits for the call's pass.
func (d *device) Generate(ctx context.Context, _ producers.Request) (producers.Completion, error) {
	c := &call{done: make(chan struct{})}
	d.mu.Lock()
	d.queue = append(d.queue, c)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
	select {
	case <-c.done:
		return producers.Completion{IDs: d.tokens, Logprobs: d.probs, Versions: d.spans, Finish: producers.FinishStop, Engine: "device"}, nil
	case <-ctx.Done():
		return producers.Completion{}, ctx.Err()
	}
}

// run makes passes until ctx ends.
func (d *device) run(ctx context.Context) {
	end := time.Now() // of the last pass
	for ctx.Err() == nil {
		batch := d.take()
		if len(batch) == 0 {
			select {
			case <-d.wake:
			case <-ctx.Done():
			}
			if now := time.Now(); now.After(end) {
				end = now
			}
			continue
		}
		end = end.Add(d.pass)
		time.Sleep(time.Until(end))
		for _, c := range batch {
			close(c.done)
		}
	}
}

func (d *device) take() []*call {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(d.batch, len(d.queue))
	batch := d.queue[:n:n]
	d.queue = d.queue[n:]
	if n > 0 {
		d.passes++
	}
	return batch
}

func (d *device) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passes
}
