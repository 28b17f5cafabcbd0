package envs

import "context"

// Lifecycle keeps the part of the [Environment] contract that is the same for
// all: what may be called when, and the turn limit. An environment holds one,
// asks it first in Reset and Step, and hands it every result. The zero value
// is ready. Not safe for concurrent use.
type Lifecycle struct {
	started, done, closed bool
	turn, limit           int
}

// Start begins an episode of at most limit turns (above 0), or of the task's
// MaxTurns where that is smaller. It returns ErrClosed or the context's error.
func (l *Lifecycle) Start(ctx context.Context, task Task, limit int) error {
	if l.closed {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if task.MaxTurns > 0 && task.MaxTurns < limit {
		limit = task.MaxTurns
	}
	l.started, l.done, l.turn, l.limit = true, false, 0, limit
	return nil
}

// Turn admits one step and counts it, or says why there is none: ErrClosed,
// ErrNotReset, ErrDone or the context's error, after which nothing changed.
func (l *Lifecycle) Turn(ctx context.Context) error {
	switch {
	case l.closed:
		return ErrClosed
	case !l.started:
		return ErrNotReset
	case l.done:
		return ErrDone
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	l.turn++
	return nil
}

// Last reports whether the step admitted by Turn is the last that the limit
// allows.
func (l *Lifecycle) Last() bool { return l.turn >= l.limit }

// Settle completes a step's result: on the last turn an episode that the rules
// did not end is truncated.
func (l *Lifecycle) Settle(r StepResult) StepResult {
	r.Truncated = !r.Terminated && l.Last()
	l.done = r.Done()
	return r
}

// Live reports whether an episode is going on.
func (l *Lifecycle) Live() bool { return l.started && !l.done && !l.closed }

// Turns is the number of steps taken in this episode.
func (l *Lifecycle) Turns() int { return l.turn }

// Close ends everything; closing again changes nothing.
func (l *Lifecycle) Close() error {
	l.closed = true
	return nil
}
