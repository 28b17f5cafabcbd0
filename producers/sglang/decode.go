package sglang

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/subjects"
)

// answer is what is taken from a /generate answer.
type answer struct {
	ids        []int32
	logprobs   []float32
	logprobIDs []int32
	finish     string // "" while missing
	message    string // of an abort
	version    string
	versions   []versionSpan
	cached     int64
	queued     time.Duration
	hasIDs     bool
	hasProbs   bool
}

type versionSpan struct {
	version    string
	start, end int64
}

const logprobSlack = 1e-3

var errNumber = errors.New("a list stands where one completion should be")

// decode reads and checks an answer. Errors wrap ErrBadAnswer, or ErrAborted
// and its kin when the engine says that it gave up.
func decode(b []byte, vocab int) (producers.Completion, error) {
	s := scanner{b: b}
	var a answer
	if s.peek() == '[' {
		return producers.Completion{}, fmt.Errorf("%w: %w", producers.ErrBadAnswer, errNumber)
	}
	s.object(func(key string) { a.field(&s, key) })
	if s.end(); s.err != nil {
		return producers.Completion{}, fmt.Errorf("%w: %w", producers.ErrBadAnswer, s.err)
	}
	if a.finish == "abort" {
		return producers.Completion{}, aborted(a.message)
	}
	if err := a.check(vocab); err != nil {
		return producers.Completion{}, fmt.Errorf("%w: %w", producers.ErrBadAnswer, err)
	}
	versions, err := a.policyVersions()
	if err != nil {
		return producers.Completion{}, fmt.Errorf("%w: %w", producers.ErrBadAnswer, err)
	}
	return producers.Completion{IDs: a.ids, Logprobs: a.logprobs, Versions: versions, Finish: a.finish, Cached: int(a.cached),
		QueueTime: a.queued}, nil
}

// aborted tells an abort that refuses the request from one that may be retried.
func aborted(message string) error {
	if tooLong(message) {
		return fmt.Errorf("%w: %s", producers.ErrTooLong, message)
	}
	return fmt.Errorf("%w: %s", producers.ErrAborted, message)
}

func (a *answer) field(s *scanner, key string) {
	switch key {
	case "output_ids":
		if a.hasIDs = s.optional(); a.hasIDs {
			a.ids = make([]int32, 0, 16)
			s.array(func() { a.ids = append(a.ids, s.id()) })
		}
	case "meta_info":
		s.object(func(key string) { a.meta(s, key) })
	default:
		s.skip()
	}
}

func (a *answer) meta(s *scanner, key string) {
	switch key {
	case "finish_reason":
		if s.optional() {
			s.object(func(key string) { a.reason(s, key) })
		}
	case "output_token_logprobs":
		if a.hasProbs = s.optional(); a.hasProbs {
			a.logprobs, a.logprobIDs = make([]float32, 0, 16), make([]int32, 0, 16)
			s.array(func() { a.logprob(s) })
		}
	case "weight_version":
		a.version = versionText(s)
	case "weight_versions":
		if s.optional() {
			s.array(func() { a.versions = append(a.versions, readVersion(s)) })
		}
	case "cached_tokens":
		a.cached = s.int()
	case "queue_time":
		if s.optional() {
			a.queued = time.Duration(s.float() * float64(time.Second))
		}
	default:
		s.skip()
	}
}

func (a *answer) reason(s *scanner, key string) {
	switch key {
	case "type":
		a.finish = s.text()
	case "message":
		if s.peek() == '"' {
			a.message = s.text()
			return
		}
		s.skip()
	default:
		s.skip()
	}
}

// logprob reads one [logprob, id, text] triple.
func (a *answer) logprob(s *scanner) {
	place := 0
	s.array(func() {
		switch place {
		case 0:
			a.logprobs = append(a.logprobs, float32(s.float()))
		case 1:
			a.logprobIDs = append(a.logprobIDs, s.id())
		default:
			s.skip()
		}
		place++
	})
}

func readVersion(s *scanner) versionSpan {
	v := versionSpan{start: -1, end: -1}
	s.object(func(key string) {
		switch key {
		case "version":
			v.version = versionText(s)
		case "start":
			v.start = s.int()
		case "end":
			v.end = s.int()
		default:
			s.skip()
		}
	})
	return v
}

// versionText reads a version that may be a string, a number or null.
func versionText(s *scanner) string {
	if s.peek() == '"' {
		return s.text()
	}
	return strings.TrimSpace(string(s.scalar()))
}

func (a *answer) check(vocab int) error {
	switch {
	case !a.hasIDs:
		return errors.New("no output_ids: the engine does not return token ids")
	case !a.hasProbs:
		return errors.New("no output_token_logprobs: the engine does not return logprobs")
	case len(a.ids) == 0:
		return errors.New("nothing was sampled")
	case len(a.logprobs) != len(a.ids) || !slices.Equal(a.ids, a.logprobIDs):
		return fmt.Errorf("%d ids and %d logprobs of %d ids do not belong together", len(a.ids), len(a.logprobs), len(a.logprobIDs))
	case a.finish != producers.FinishStop && a.finish != producers.FinishLength:
		return fmt.Errorf("finish reason %q", a.finish)
	case a.cached < 0 || a.cached > math.MaxInt32:
		return fmt.Errorf("%d cached tokens", a.cached)
	}
	for i, id := range a.ids {
		if int(id) >= vocab {
			return fmt.Errorf("id %d at %d, vocabulary %d", id, i, vocab)
		}
		if lp := float64(a.logprobs[i]); !(lp <= logprobSlack) || math.IsInf(lp, 0) {
			return fmt.Errorf("logprob %v of token %d", lp, i)
		}
	}
	return nil
}

// policyVersions says which version sampled what. Spans must cover the
// completion; without spans the one version is that of all.
func (a *answer) policyVersions() ([]subjects.VersionSpan, error) {
	spans := a.versions
	if len(spans) == 0 {
		spans = []versionSpan{{version: a.version, end: int64(len(a.ids))}}
	}
	out := make([]subjects.VersionSpan, 0, len(spans))
	at := int64(0)
	for _, v := range spans {
		number, err := strconv.ParseInt(v.version, 10, 32)
		if err != nil || number < 0 {
			return nil, fmt.Errorf("weight version %.40q is no policy version: weights must come from this run's trainer", v.version)
		}
		if v.start != at || v.end < v.start || v.end > int64(len(a.ids)) {
			return nil, fmt.Errorf("weight version %s of tokens %d to %d, expected from %d on", v.version, v.start, v.end, at)
		}
		if v.end > v.start {
			out = append(out, subjects.VersionSpan{Start: int32(v.start), End: int32(v.end), Version: subjects.PolicyVersion(number)})
		}
		at = v.end
	}
	if at != int64(len(a.ids)) {
		return nil, fmt.Errorf("weight versions cover %d of %d tokens", at, len(a.ids))
	}
	return out, nil
}
