package producers

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/headrace/headrace/subjects"
)

// Stats counts what a [Player] did. All fields only grow but Live and Leaked.
type Stats struct {
	// Live episodes now.
	Live atomic.Int64
	// Leaked calls of environments that hang now, past every limit.
	Leaked atomic.Int64
	// Episodes that ended, by status.
	Succeeded, Truncated, Overlong, Failed, Aborted atomic.Int64
	// Failed episodes by what failed them.
	FailedEngine, FailedEnvironment, FailedOther atomic.Int64
	// Steps are completed turns, Calls answered model calls, Forks rewritten
	// histories.
	Steps, Calls, Forks atomic.Int64
	// Tokens of model calls; CachedTokens are part of PromptTokens.
	PromptTokens, CachedTokens, SampledTokens atomic.Int64
	// Time spent waiting for engines and environments, summed over episodes.
	EngineNanos, EnvNanos atomic.Int64
}

func (s *Stats) count(status subjects.Status, err error, forks int) {
	s.Forks.Add(int64(forks))
	switch status {
	case subjects.Succeeded:
		s.Succeeded.Add(1)
	case subjects.Truncated:
		s.Truncated.Add(1)
	case subjects.Overlong:
		s.Overlong.Add(1)
	case subjects.Aborted:
		s.Aborted.Add(1)
	case subjects.Failed:
		s.Failed.Add(1)
		s.blame(err)
	}
}

func (s *Stats) blame(err error) {
	var f *fault
	switch {
	case !errors.As(err, &f):
		s.FailedOther.Add(1)
	case f.of == engine:
		s.FailedEngine.Add(1)
	default:
		s.FailedEnvironment.Add(1)
	}
}

// part is what an episode depends on.
type part int

const (
	engine part = iota
	environment
)

// fault is an error with its culprit.
type fault struct {
	of  part
	err error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faultOf(of part, format string, args ...any) error {
	return &fault{of, fmt.Errorf(format, args...)}
}
