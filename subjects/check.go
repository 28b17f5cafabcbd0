package subjects

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

const (
	// logprobSlack is how far above zero rounding may put a logprob.
	logprobSlack = 1e-3
	// maxSlot bounds slots and attempts.
	maxSlot = math.MaxInt16
)

// Check reports whether every value of the body is one that its readers can
// use: known kind and status; a reward that is finite as a float32; ids in
// [0, vocab) (vocab 0: not checked); spans ascending and in range; one finite
// non-positive logprob per sampled token; a loss mask that covers sampled
// tokens only; turns that point into their segments; finite components; a task
// that is JSON.
func (v *BodyView) Check(vocab int) error {
	if err := v.checkScalars(); err != nil {
		return err
	}
	total := 0
	for i := range v.Segments {
		s := &v.Segments[i]
		if total += s.Len(); total > MaxTokens {
			return fmt.Errorf("%w: more than %d tokens", ErrMalformed, MaxTokens)
		}
		if err := s.check(vocab, i); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
		if p := s.Parent; p >= 0 && s.Shared > v.Segments[p].Len() {
			return fmt.Errorf("segment %d: %w: shares %d tokens with segment %d of %d", i, ErrMalformed, s.Shared, p, v.Segments[p].Len())
		}
	}
	for i := range v.turns.n {
		t := v.turns.turn(i)
		if err := t.check(v.Segments); err != nil {
			return fmt.Errorf("turn %d: %w", i, err)
		}
	}
	return nil
}

func (v *BodyView) checkScalars() error {
	switch {
	case !v.Kind.Valid():
		return fmt.Errorf("%w: kind %.20q", ErrMalformed, v.Kind)
	case !v.Status.Valid():
		return fmt.Errorf("%w: status %.20q", ErrMalformed, v.Status)
	case !validToken(string(v.Group)):
		return fmt.Errorf("%w: group %.40q", ErrMalformed, v.Group)
	case !validToken(v.Environment):
		return fmt.Errorf("%w: environment %.40q", ErrMalformed, v.Environment)
	case !usableReward(v.Reward):
		return fmt.Errorf("%w: reward %v", ErrMalformed, v.Reward)
	case v.Slot < 0 || v.Slot > maxSlot || v.Attempt < 0 || v.Attempt > maxSlot:
		return fmt.Errorf("%w: slot %d attempt %d", ErrMalformed, v.Slot, v.Attempt)
	case v.Round < 0 || v.Kind == Train && v.Round != 0:
		return fmt.Errorf("%w: round %d of kind %s", ErrMalformed, v.Round, v.Kind)
	case v.Status.Trained() && len(v.Segments) == 0:
		return fmt.Errorf("%w: status %s without a segment", ErrMalformed, v.Status)
	case !finite(v.Sampling.Temperature) || v.Sampling.Temperature < 0 || !finite(v.Sampling.TopP):
		return fmt.Errorf("%w: sampling temperature %v top_p %v", ErrMalformed, v.Sampling.Temperature, v.Sampling.TopP)
	case len(v.task) > 0 && !json.Valid(v.task):
		return fmt.Errorf("%w: task is not JSON", ErrMalformed)
	}
	for name, x := range v.Components {
		if !finite(x) {
			return fmt.Errorf("%w: reward component %.40q is %v", ErrMalformed, name, x)
		}
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// usableReward reports whether a reward is finite in the trainer's arrays too.
func usableReward(x float64) bool { return math.Abs(x) <= math.MaxFloat32 } // false for NaN

func (s *SegmentView) check(vocab, index int) error {
	if s.Parent < -1 || s.Parent >= index || s.Shared < 0 || s.Shared > s.Len() {
		return fmt.Errorf("%w: forks from segment %d at %d", ErrMalformed, s.Parent, s.Shared)
	}
	if err := s.checkTokens(vocab); err != nil {
		return err
	}
	sampled, err := s.checkVersions()
	if err != nil {
		return err
	}
	if n := len(s.Logprobs) / 4; n != sampled {
		return fmt.Errorf("%w: %d logprobs for %d sampled tokens", ErrMalformed, n, sampled)
	}
	if err := s.checkLogprobs(); err != nil {
		return err
	}
	return s.checkMask()
}

func (s *SegmentView) checkTokens(vocab int) error {
	limit := uint32(math.MaxInt32)
	if vocab > 0 {
		limit = uint32(vocab) - 1
	}
	for i := 0; i < len(s.Tokens); i += 4 {
		if id := binary.LittleEndian.Uint32(s.Tokens[i:]); id > limit {
			return fmt.Errorf("%w: token id %d at %d, vocabulary %d", ErrMalformed, int32(id), i/4, vocab)
		}
	}
	return nil
}

func (s *SegmentView) checkLogprobs() error {
	for i := 0; i < len(s.Logprobs); i += 4 {
		lp := math.Float32frombits(binary.LittleEndian.Uint32(s.Logprobs[i:]))
		if !(lp <= logprobSlack && lp >= -math.MaxFloat32) { // NaN fails both
			return fmt.Errorf("%w: logprob %v of sampled token %d", ErrMalformed, lp, i/4)
		}
	}
	return nil
}

// checkVersions returns the number of sampled tokens.
func (s *SegmentView) checkVersions() (sampled int, err error) {
	last := int32(0)
	for i := range s.VersionSpans() {
		v := s.VersionSpan(i)
		if v.Start < last || v.End <= v.Start || int(v.End) > s.Len() || v.Version < 0 {
			return 0, fmt.Errorf("%w: version span %d is [%d, %d) of version %d in %d tokens", ErrMalformed, i, v.Start, v.End, v.Version, s.Len())
		}
		sampled += int(v.End - v.Start)
		last = v.End
	}
	return sampled, nil
}

// checkMask wants the mask's spans ascending and each token of them sampled.
func (s *SegmentView) checkMask() error {
	last, k := int32(0), 0
	for i := range s.Spans() {
		m := s.Span(i)
		if m.Start < last || m.End <= m.Start {
			return fmt.Errorf("%w: loss mask span %d is [%d, %d)", ErrMalformed, i, m.Start, m.End)
		}
		last = m.End
		for at := m.Start; at < m.End; { // tokens of m before at are sampled
			for k < s.VersionSpans() && s.VersionSpan(k).End <= at {
				k++
			}
			if k == s.VersionSpans() || s.VersionSpan(k).Start > at {
				return fmt.Errorf("%w: loss mask covers token %d, which was not sampled", ErrMalformed, at)
			}
			at = s.VersionSpan(k).End
		}
	}
	return nil
}

// check wants a turn's spans within its segment, in order, and its reward
// finite. A turn whose call failed has two empty spans and may name no segment.
func (t *Turn) check(segments []SegmentView) error {
	if !finite(t.Reward) {
		return fmt.Errorf("%w: reward %v", ErrMalformed, t.Reward)
	}
	if t.Cached < 0 {
		return fmt.Errorf("%w: %d cached tokens", ErrMalformed, t.Cached)
	}
	if t.Prompt == (Span{}) && t.Completion == (Span{}) {
		return nil
	}
	if t.Segment < 0 || t.Segment >= len(segments) {
		return fmt.Errorf("%w: segment %d of %d", ErrMalformed, t.Segment, len(segments))
	}
	n := segments[t.Segment].Len()
	for _, s := range [...]Span{t.Prompt, t.Completion} {
		if s.Start < 0 || s.End < s.Start || int(s.End) > n {
			return fmt.Errorf("%w: span [%d, %d) in %d tokens", ErrMalformed, s.Start, s.End, n)
		}
	}
	return nil
}
