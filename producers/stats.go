package producers

import (
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
	// Steps are completed turns, Calls answered model calls, Forks rewritten
	// histories.
	Steps, Calls, Forks atomic.Int64
	// Tokens of model calls; CachedTokens are part of PromptTokens.
	PromptTokens, CachedTokens, SampledTokens atomic.Int64
	// Time spent waiting for engines and environments, summed over episodes.
	EngineNanos, EnvNanos atomic.Int64
}

func (s *Stats) count(t *subjects.Trajectory, forks int) {
	s.Forks.Add(int64(forks))
	switch t.Status {
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
	}
}
