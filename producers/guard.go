package producers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// ErrDeadline is wrapped by every error about a limit of [Limits].
var ErrDeadline = errors.New("took longer than allowed")

// PanicError is a panic of an environment, agent or policy, recovered.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

func stackOf(err error) string {
	var p *PanicError
	if errors.As(err, &p) {
		return p.Stack
	}
	return ""
}

// protect runs fn and turns a panic into an error.
func protect[T any](fn func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{Value: r, Stack: string(debug.Stack())}
		}
	}()
	return fn()
}

// limited derives a context that ends after d, with a cause that says whose
// limit it was.
func limited(ctx context.Context, what string, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, &limitError{what, d})
}

type limitError struct {
	what string
	d    time.Duration
}

func (e *limitError) Error() string { return fmt.Sprintf("%s %v (%v)", e.what, ErrDeadline, e.d) }
func (e *limitError) Unwrap() error { return ErrDeadline }

// caused replaces the bare error of an ended context by the cause of the end.
func caused(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return context.Cause(ctx)
	}
	return err
}

// States of a guarded call.
const (
	running int32 = iota
	returned
	abandoned
)

type result[T any] struct {
	value T
	err   error
}

// guard calls code that may hang: fn runs in a goroutine of its own and, if it
// does not return within grace after ctx ended, is abandoned: counted in
// leaked until it returns after all, whereupon late runs in its goroutine. The
// caller shares nothing with fn but what fn returns in time.
func guard[T any](ctx context.Context, grace time.Duration, leaked *atomic.Int64, late func(T), fn func() (T, error)) (T, bool, error) {
	var state atomic.Int32
	done := make(chan result[T], 1)
	go func() {
		v, err := protect(fn)
		if state.CompareAndSwap(running, returned) {
			done <- result[T]{v, err}
			return
		}
		late(v)
		leaked.Add(-1)
	}()
	select {
	case r := <-done:
		return r.value, true, caused(ctx, r.err)
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, true, caused(ctx, r.err)
	case <-timer.C:
	}
	leaked.Add(1)
	if !state.CompareAndSwap(running, abandoned) { // it returned just now
		leaked.Add(-1)
		r := <-done
		return r.value, true, caused(ctx, r.err)
	}
	var zero T
	return zero, false, fmt.Errorf("%w; the call ignores its context and was left behind", context.Cause(ctx))
}
