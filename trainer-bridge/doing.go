package trainerbridge

import (
	"sync"
	"time"

	"github.com/headrace/headrace/subjects"
)

// doing is the step that a trainer is at: what its next commit will say, as far
// as it has come. A trainer that has asked for a batch waits, unless it has one
// that it has not committed; then it trains, and asked early.
type doing struct {
	mu        sync.Mutex
	delivered subjects.Step
	committed subjects.Step
	began     bool          // it has committed a step: what was before is its start
	asked     time.Time     // since when a NEXT is open; zero: none is
	waits     time.Time     // since when it waits; zero: it does not
	waited    time.Duration // for the batch that it trains
	trains    time.Time     // since when it trains; zero: it does not
}

// starts is that the trainer holds a step.
func (d *doing) starts(step subjects.Step) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delivered, d.committed = step, step
}

// asks is that a NEXT is open.
func (d *doing) asks(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = now
	d.idles(now)
}

// idles is that the trainer has nothing to do from now on but to wait.
func (d *doing) idles(now time.Time) {
	if d.delivered == d.committed && !d.asked.IsZero() {
		d.waits = now
	}
}

// answered is that a NEXT got its batch, or no batch: step 0.
func (d *doing) answered(step subjects.Step, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if step > 0 && d.delivered == d.committed {
		d.waited, d.trains = now.Sub(d.waits), now
	}
	d.delivered, d.asked, d.waits = max(d.delivered, step), time.Time{}, time.Time{}
}

// commits is that a step was trained.
func (d *doing) commits(step subjects.Step, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.committed, d.began, d.waited, d.trains = step, true, 0, now
	if d.delivered == d.committed {
		d.trains = time.Time{}
	}
	d.idles(now)
}

// soFar is how long the trainer has waited for its step, and trained it; not ok
// where it is at none, or at its first.
func (d *doing) soFar(now time.Time) (waited, trained time.Duration, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.began:
		return 0, 0, false
	case !d.trains.IsZero():
		return d.waited, now.Sub(d.trains), true
	case !d.waits.IsZero():
		return now.Sub(d.waits), 0, true
	}
	return 0, 0, false
}
