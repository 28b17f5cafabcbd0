package producers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/subjects"
)

// Policy samples completions: one inference engine, or a pool of them.
//
// Concurrent: yes, thousands of calls at once. Closing is the business of who
// made it. Generate returns when the completion is whole, ctx is done or the
// call failed; a Policy retries what a retry can mend, so an error means that
// the episode cannot go on. Errors are those below, or the context's.
type Policy interface {
	Generate(ctx context.Context, r Request) (Completion, error)
}

// Request is one model call.
type Request struct {
	// Session names the episode: calls of a session share a prefix, so a pool
	// sends them to the same engine.
	Session string
	// IDs is the whole prompt, [T] token ids. The callee must not keep or
	// change it.
	IDs []int32
	// Sampling of this call. Its seed is this call's own, MaxNewTokens at most
	// what is left of the episode's budget.
	Sampling subjects.Sampling
	// StopIDs end the completion; the one that did is its last id.
	StopIDs []int32
}

// Completion is what was sampled.
type Completion struct {
	// IDs are the sampled tokens, [n], the stop id included; n >= 1.
	IDs []int32
	// Logprobs are the sampler's after temperature, [n], nats.
	Logprobs []float32
	// Versions cover [0, n) without a gap: which policy version sampled what.
	Versions []subjects.VersionSpan
	// Finish is FinishStop or FinishLength.
	Finish string
	// Cached is the number of prompt tokens the engine had in its cache.
	Cached int
	// QueueTime is how long the call waited inside the engine; 0 when the
	// engine does not say.
	QueueTime time.Duration
	// Waited is how long the call waited before it was sent, for a place at the
	// engine and for other attempts; 0 when nobody measured.
	Waited time.Duration
	// Engine names the engine.
	Engine string
}

// Values of Completion.Finish.
const (
	FinishStop   = "stop"   // a stop id was sampled
	FinishLength = "length" // MaxNewTokens were sampled
)

// Errors of a [Policy] that callers branch on.
var (
	// ErrUnavailable: the engine cannot be reached, died or has no weights.
	ErrUnavailable = errors.New("engine unavailable")
	// ErrOverloaded: the engine refuses work for now; see [OverloadedError].
	ErrOverloaded = errors.New("engine overloaded")
	// ErrAborted: the engine gave the call up; it may be made again.
	ErrAborted = errors.New("engine aborted the call")
	// ErrBadRequest: the engine refuses the call, or it was refused unsent.
	ErrBadRequest = errors.New("bad request")
	// ErrTooLong: prompt and completion do not fit the engine's context.
	ErrTooLong = errors.New("request exceeds the engine's context")
	// ErrBadAnswer: the answer is not one a trainer can use: ids or logprobs
	// missing, of unequal length or out of range, or no policy version.
	ErrBadAnswer = errors.New("bad answer")
	// ErrNoEngine: no engine has been live for as long as a call may wait.
	ErrNoEngine = errors.New("no live engine")
)

// OverloadedError is ErrOverloaded with the engine's wish.
type OverloadedError struct {
	// RetryAfter is how long to wait; 0 when the engine did not say.
	RetryAfter time.Duration
	Detail     string
}

func (e *OverloadedError) Error() string { return fmt.Sprintf("%v: %s", ErrOverloaded, e.Detail) }

// Unwrap returns ErrOverloaded.
func (e *OverloadedError) Unwrap() error { return ErrOverloaded }
