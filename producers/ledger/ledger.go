// Package ledger keeps an episode's tokens.
//
// The one idea: a segment only grows. The prompt of call t+1 must begin with
// the prompt of call t and its completion; a history that does not is a new
// segment, forked where the two part, and the fork is counted. So no token that
// the model sampled is ever replaced by another spelling of its text, and each
// keeps the logprob and the policy version it was sampled with.
package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// ErrRefused is wrapped by every error about tokens that no trainer could use.
var ErrRefused = errors.New("tokens refused")

// logprobSlack is how far above zero rounding may put a logprob.
const logprobSlack = 1e-3

// Ledger holds the segments of one episode. It never fails half-way: a refused
// call changes nothing. Not safe for concurrent use.
type Ledger struct {
	vocab    int
	segments []subjects.Segment
	total    int // tokens of all segments
	mark     int // tokens of the open segment up to the last completion's end
	forks    int
}

// New makes an empty ledger for a vocabulary of the given size.
func New(vocab int) *Ledger { return &Ledger{vocab: vocab} }

// Len is the number of tokens of the open segment: the context a call sees.
func (l *Ledger) Len() int {
	if s := l.open(); s != nil {
		return len(s.Tokens)
	}
	return 0
}

// Tokens is the open segment, [T] ids: the prompt of the next call. It must
// not be changed and is good until the next call of a method.
func (l *Ledger) Tokens() []int32 {
	if s := l.open(); s != nil {
		return s.Tokens
	}
	return nil
}

// Forks counts the rewritten histories.
func (l *Ledger) Forks() int { return l.forks }

// Index is the open segment's, -1 before the first prompt.
func (l *Ledger) Index() int { return len(l.segments) - 1 }

// Segments are all segments so far, the open one last; they alias the ledger.
func (l *Ledger) Segments() []subjects.Segment { return l.segments }

func (l *Ledger) open() *subjects.Segment {
	if len(l.segments) == 0 {
		return nil
	}
	return &l.segments[len(l.segments)-1]
}

// Append adds tokens that nobody sampled (templates, observations) behind the
// history and returns their span together with what was added since the last
// completion.
func (l *Ledger) Append(ids []int32) (subjects.Span, error) {
	if err := l.checkIDs(ids); err != nil {
		return subjects.Span{}, err
	}
	if l.open() == nil {
		l.fork(ids, 0)
		return l.pending(), nil
	}
	l.add(ids)
	return l.pending(), nil
}

func (l *Ledger) add(ids []int32) {
	s := l.open()
	s.Tokens = append(s.Tokens, ids...)
	l.total += len(ids)
}

// Prompt sets the whole prompt of the next call. If it continues the history,
// what is new is appended; else a segment is forked at the last token the two
// have in common. It returns the span of what is new since the last completion
// or, in a forked segment, since the fork.
func (l *Ledger) Prompt(ids []int32) (subjects.Span, error) {
	if err := l.checkIDs(ids); err != nil {
		return subjects.Span{}, err
	}
	s := l.open()
	if s == nil {
		l.fork(ids, 0)
		return l.pending(), nil
	}
	shared := common(s.Tokens, ids)
	if shared == len(s.Tokens) {
		l.add(ids[shared:])
		return l.pending(), nil
	}
	l.forks++
	l.fork(ids, shared)
	return l.pending(), nil
}

func (l *Ledger) pending() subjects.Span {
	return subjects.Span{Start: int32(l.mark), End: int32(l.Len())}
}

// fork opens a segment whose first shared tokens repeat the open one's. They
// are context there: only the parent trains on what was sampled in them.
func (l *Ledger) fork(ids []int32, shared int) {
	l.segments = append(l.segments, subjects.Segment{
		Tokens: slices.Clone(ids), Parent: len(l.segments) - 1, Shared: shared,
	})
	l.total += len(ids)
	l.mark = shared
}

// Complete adds a completion: [n] sampled ids, their logprobs [n] and version
// spans that cover [0, n) without a gap. It returns the span of the ids in the
// open segment.
func (l *Ledger) Complete(ids []int32, logprobs []float32, versions []subjects.VersionSpan) (subjects.Span, error) {
	if err := l.checkCompletion(ids, logprobs, versions); err != nil {
		return subjects.Span{}, err
	}
	s := l.open()
	start := int32(len(s.Tokens))
	span := subjects.Span{Start: start, End: start + int32(len(ids))}
	l.add(ids)
	s.Logprobs = append(s.Logprobs, logprobs...)
	for _, v := range versions {
		s.Versions = appendVersion(s.Versions, subjects.VersionSpan{
			Start: start + v.Start, End: start + v.End, Version: v.Version})
	}
	s.LossMask = appendSpan(s.LossMask, span)
	l.mark = len(s.Tokens)
	return span, nil
}

func (l *Ledger) checkCompletion(ids []int32, logprobs []float32, versions []subjects.VersionSpan) error {
	switch {
	case l.open() == nil:
		return fmt.Errorf("%w: a completion before the first prompt", ErrRefused)
	case len(ids) == 0:
		return fmt.Errorf("%w: an empty completion", ErrRefused)
	case len(logprobs) != len(ids):
		return fmt.Errorf("%w: %d logprobs for %d ids", ErrRefused, len(logprobs), len(ids))
	}
	if err := l.checkIDs(ids); err != nil {
		return err
	}
	for i, lp := range logprobs {
		if !(lp <= logprobSlack) || math.IsInf(float64(lp), 0) { // NaN fails the comparison
			return fmt.Errorf("%w: logprob %v of completion token %d", ErrRefused, lp, i)
		}
	}
	return checkVersions(versions, len(ids))
}

func checkVersions(versions []subjects.VersionSpan, n int) error {
	at := int32(0)
	for _, v := range versions {
		if v.Start != at || v.End <= v.Start || v.Version < 0 {
			return fmt.Errorf("%w: version span [%d, %d) of version %d at token %d", ErrRefused, v.Start, v.End, v.Version, at)
		}
		at = v.End
	}
	if int(at) != n {
		return fmt.Errorf("%w: version spans cover %d of %d tokens", ErrRefused, at, n)
	}
	return nil
}

func (l *Ledger) checkIDs(ids []int32) error {
	if l.total+len(ids) > subjects.MaxTokens {
		return fmt.Errorf("%w: more than %d tokens", ErrRefused, subjects.MaxTokens)
	}
	for i, id := range ids {
		if uint32(id) >= uint32(l.vocab) { // a negative id is a large one
			return fmt.Errorf("%w: id %d at %d, vocabulary %d", ErrRefused, id, i, l.vocab)
		}
	}
	return nil
}

// appendVersion merges a span into the last one where both are one stretch of
// one version.
func appendVersion(spans []subjects.VersionSpan, v subjects.VersionSpan) []subjects.VersionSpan {
	if n := len(spans); n > 0 && spans[n-1].End == v.Start && spans[n-1].Version == v.Version {
		spans[n-1].End = v.End
		return spans
	}
	return append(spans, v)
}

func appendSpan(spans []subjects.Span, s subjects.Span) []subjects.Span {
	if n := len(spans); n > 0 && spans[n-1].End == s.Start {
		spans[n-1].End = s.End
		return spans
	}
	return append(spans, s)
}

// common is the length of the longest common prefix.
func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
