package subjects

import "fmt"

// DecodeTrajectory reads a whole body into memory of its own. It validates the
// structure; [Trajectory.Check] checks the values.
func DecodeTrajectory(b []byte) (*Trajectory, error) {
	v, err := ViewBody(b)
	if err != nil {
		return nil, err
	}
	return v.trajectory(), nil
}

// trajectory copies the view out of the message.
func (v *BodyView) trajectory() *Trajectory {
	t := &Trajectory{
		Kind: v.Kind, Group: v.Group, Slot: v.Slot, Attempt: v.Attempt, Round: v.Round,
		Environment: v.Environment, Task: append([]byte(nil), v.task...), Seed: v.seed,
		Producer: string(v.producer), Engine: string(v.engine), Tokenizer: v.Tokenizer, Sampling: v.Sampling,
		Status: v.Status, Reason: string(v.reason), Reward: v.Reward, Components: v.Components,
		Started: v.started, Finished: v.finished, Turns: v.turns.all(), Messages: readMessages(v.messages),
	}
	for i := range v.Segments {
		t.Segments = append(t.Segments, v.Segments[i].segment())
	}
	return t
}

func (s *SegmentView) segment() Segment {
	out := Segment{
		Tokens: readArray[int32](s.Tokens), Logprobs: readArray[float32](s.Logprobs),
		LossMask: readArray[Span](s.LossMask), Parent: s.Parent, Shared: s.Shared,
	}
	for i := range s.VersionSpans() {
		out.Versions = append(out.Versions, s.VersionSpan(i))
	}
	return out
}

// Check is [BodyView.Check] of the trajectory's encoded form, for a producer
// that wants to know before it publishes. It also refuses what
// [EncodeTrajectory] has no room for and more turns or messages than a body may have.
func (t *Trajectory) Check(vocab int) error {
	switch {
	case len(t.Segments) > maxSegments:
		return fmt.Errorf("%w: %d segments", ErrMalformed, len(t.Segments))
	case len(t.Turns) > maxTurns:
		return fmt.Errorf("%w: %d turns", ErrMalformed, len(t.Turns))
	case len(t.Messages) > maxMessages:
		return fmt.Errorf("%w: %d messages", ErrMalformed, len(t.Messages))
	case len(t.Components) > maxComponents:
		return fmt.Errorf("%w: %d reward components", ErrMalformed, len(t.Components))
	}
	if err := t.fits(); err != nil {
		return err
	}
	v := t.view()
	if err := v.Check(vocab); err != nil {
		return err
	}
	for i := range t.Turns {
		if err := t.Turns[i].check(v.Segments); err != nil {
			return fmt.Errorf("turn %d: %w", i, err)
		}
	}
	return nil
}

// view is the part of the trajectory's view that [BodyView.Check] looks at,
// but for the turns.
func (t *Trajectory) view() BodyView {
	v := BodyView{
		Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Round: t.Round, Status: t.Status,
		Reward: t.Reward, Components: t.Components, Environment: t.Environment, Tokenizer: t.Tokenizer,
		Sampling: t.Sampling, task: t.Task, Segments: make([]SegmentView, len(t.Segments)),
	}
	for i := range t.Segments {
		s := &t.Segments[i]
		v.Segments[i] = SegmentView{
			Tokens: wireArray(s.Tokens), Logprobs: wireArray(s.Logprobs), LossMask: wireArray(s.LossMask),
			Versions: appendVersions(nil, s.Versions), Parent: s.Parent, Shared: s.Shared,
		}
	}
	return v
}
