package subjects

import (
	"encoding/binary"
	"fmt"
	"math"
)

// logprobSlack is how far above zero rounding may put a logprob.
const logprobSlack = 1e-3

// Check reports whether every value of the body is one that a trainer can use:
// known kind and status, finite reward, ids in [0, vocab) (vocab 0: not
// checked), spans ascending and in range, one finite non-positive logprob per
// sampled token, a loss mask that covers sampled tokens only.
func (v *BodyView) Check(vocab int) error {
	switch {
	case !v.Kind.Valid():
		return fmt.Errorf("%w: kind %q", ErrMalformed, v.Kind)
	case !v.Status.Valid():
		return fmt.Errorf("%w: status %q", ErrMalformed, v.Status)
	case !validToken(string(v.Group)) || !validToken(v.Environment):
		return fmt.Errorf("%w: group %.40q or environment %.40q", ErrMalformed, v.Group, v.Environment)
	case math.IsNaN(v.Reward) || math.IsInf(v.Reward, 0):
		return fmt.Errorf("%w: reward %v", ErrMalformed, v.Reward)
	case v.Slot < 0 || v.Attempt < 0:
		return fmt.Errorf("%w: slot %d attempt %d", ErrMalformed, v.Slot, v.Attempt)
	case v.Status.Trained() && len(v.Segments) == 0:
		return fmt.Errorf("%w: status %s without a segment", ErrMalformed, v.Status)
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
	}
	return nil
}

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
		if !(lp <= logprobSlack) || math.IsInf(float64(lp), 0) { // NaN fails the comparison
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
		for at := m.Start; at < m.End; k++ {
			if k == s.VersionSpans() || s.VersionSpan(k).Start > at {
				return fmt.Errorf("%w: loss mask covers token %d, which was not sampled", ErrMalformed, at)
			}
			if end := s.VersionSpan(k).End; end > at {
				at = min(end, m.End)
				if end > m.End {
					break // the next mask span may start in this version span
				}
			}
		}
	}
	return nil
}
