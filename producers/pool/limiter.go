package pool

import (
	"context"
	"sync"
	"time"
)

// LimitConfig bounds the calls in flight at one engine. A zero field takes the
// default.
type LimitConfig struct {
	// Min and Max bound the limit. Default 16 and 1024.
	Min, Max int
	// TargetQueue is how long a call may wait in the engine before the limit
	// is lowered. Default 1 second.
	TargetQueue time.Duration
}

func (c LimitConfig) withDefaults() LimitConfig {
	if c.Max <= 0 {
		c.Max = 1024
	}
	if c.Min <= 0 {
		c.Min = min(16, c.Max)
	}
	if c.TargetQueue <= 0 {
		c.TargetQueue = time.Second
	}
	return c
}

const (
	overloadFactor = 0.7  // the engine refused a call
	queueFactor    = 0.9  // calls wait in it for too long
	strained       = 10.0 // latency over the best seen, where the engine does not tell its queue
	baseDrift      = 1.02 // the best seen is forgotten slowly, once a reduction window
)

// limiter is an additive-increase, multiplicative-decrease limit on the calls
// in flight. Callers beyond it wait in order. An engine's signal is heeded once
// per round trip: all calls of a crowded moment tell of the same crowd.
type limiter struct {
	cfg LimitConfig

	mu       sync.Mutex
	limit    float64
	inFlight int
	waiting  []chan struct{} // first come, first served
	base     time.Duration   // the best latency seen lately
	lowered  time.Time       // the last reduction
}

func newLimiter(cfg LimitConfig) *limiter {
	cfg = cfg.withDefaults()
	return &limiter{cfg: cfg, limit: float64(cfg.Max)}
}

// acquire waits for a place.
func (l *limiter) acquire(ctx context.Context) error {
	l.mu.Lock()
	if l.inFlight < int(l.limit) && len(l.waiting) == 0 {
		l.inFlight++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		l.forget(turn)
		return ctx.Err()
	}
}

// forget takes a waiter out of the line, or gives back the place it was just given.
func (l *limiter) forget(turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.waiting {
		if w == turn {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return
		}
	}
	l.inFlight--
	l.admit()
}

// outcome is what a call says of its engine.
type outcome struct {
	latency    time.Duration
	queue      time.Duration // as the engine says; 0: it does not
	overloaded bool
	failed     bool // for a reason that says nothing of its load
}

// release gives the place back and learns from the outcome.
func (l *limiter) release(o outcome, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	crowded := l.inFlight >= int(0.8*l.limit)
	l.inFlight--
	switch {
	case o.overloaded:
		l.lower(overloadFactor, o.latency, now)
	case o.failed:
	case l.queues(o):
		l.lower(queueFactor, o.latency, now)
	case crowded:
		l.limit = min(l.limit+1/l.limit, float64(l.cfg.Max))
	}
	l.admit()
}

func (l *limiter) queues(o outcome) bool {
	if o.queue > 0 {
		return o.queue > l.cfg.TargetQueue
	}
	if l.base == 0 || o.latency < l.base {
		l.base = o.latency
	}
	return o.latency > l.cfg.TargetQueue && float64(o.latency) > strained*float64(l.base)
}

func (l *limiter) lower(factor float64, latency time.Duration, now time.Time) {
	if now.Sub(l.lowered) < max(latency, 100*time.Millisecond) {
		return
	}
	l.lowered = now
	l.base = time.Duration(float64(l.base) * baseDrift)
	l.limit = max(l.limit*factor, float64(l.cfg.Min))
}

func (l *limiter) admit() {
	for l.inFlight < int(l.limit) && len(l.waiting) > 0 {
		l.inFlight++
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
}

func (l *limiter) now() (limit, inFlight, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.limit), l.inFlight, len(l.waiting)
}
