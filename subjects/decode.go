package subjects

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/vmihailenco/msgpack/v5"
)

// DecodeTrajectory reads a whole body into memory of its own. It validates the
// structure; [Trajectory.Check] checks the values.
func DecodeTrajectory(b []byte) (*Trajectory, error) {
	t := &Trajectory{}
	var v BodyView
	err := readBody(b, func(c *cursor, key string) bool { return v.field(c, key) || t.field(c, key) })
	if err != nil {
		return nil, err
	}
	t.Kind, t.Group, t.Slot, t.Attempt = v.Kind, v.Group, v.Slot, v.Attempt
	t.Status, t.Reward, t.Environment, t.Tokenizer = v.Status, v.Reward, v.Environment, v.Tokenizer
	for i := range v.Segments {
		t.Segments = append(t.Segments, v.Segments[i].segment())
	}
	return t, nil
}

// Check is [BodyView.Check] of the trajectory's encoded form, for a producer
// that wants to know before it publishes.
func (t *Trajectory) Check(vocab int) error {
	v := BodyView{Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Status: t.Status,
		Reward: t.Reward, Environment: t.Environment}
	for i := range t.Segments {
		v.Segments = append(v.Segments, t.Segments[i].view())
	}
	return v.Check(vocab)
}

func (s *SegmentView) segment() Segment {
	out := Segment{Parent: s.Parent, Shared: s.Shared, Tokens: make([]int32, s.Len()), Logprobs: make([]float32, len(s.Logprobs)/4)}
	for i := range out.Tokens {
		out.Tokens[i] = i32(s.Tokens, i)
	}
	for i := range out.Logprobs {
		out.Logprobs[i] = math.Float32frombits(uint32(i32(s.Logprobs, i)))
	}
	for i := range s.VersionSpans() {
		out.Versions = append(out.Versions, s.VersionSpan(i))
	}
	for i := range s.Spans() {
		out.LossMask = append(out.LossMask, s.Span(i))
	}
	return out
}

func (s *Segment) view() SegmentView {
	v := SegmentView{Parent: s.Parent, Shared: s.Shared}
	for _, id := range s.Tokens {
		v.Tokens = le32(v.Tokens, id)
	}
	for _, lp := range s.Logprobs {
		v.Logprobs = le32(v.Logprobs, int32(math.Float32bits(lp)))
	}
	for _, x := range s.Versions {
		v.Versions = le32(le32(le32(v.Versions, x.Start), x.End), int32(x.Version))
	}
	for _, m := range s.LossMask {
		v.LossMask = span(v.LossMask, m)
	}
	return v
}

func (t *Trajectory) field(c *cursor, key string) bool {
	switch key {
	case "rd":
		t.Round = Step(c.int())
	case "task":
		t.Task = append([]byte(nil), c.bin()...)
	case "seed":
		t.Seed = c.int()
	case "prod":
		t.Producer = c.str()
	case "eng":
		t.Engine = c.str()
	case "sp":
		c.into(&t.Sampling)
	case "why":
		t.Reason = c.str()
	case "rc":
		c.into(&t.Components)
	case "time":
		if c.arrayLen() != 2 {
			c.fail("want start and end")
		}
		t.Started, t.Finished = c.int(), c.int()
	case "turns":
		t.Turns = turns(c)
	case "msgs":
		c.into(&t.Messages)
	default:
		return false
	}
	return true
}

// into decodes one value with the library; the bytes have been validated.
func (c *cursor) into(v any) {
	before := c.b
	if c.skip(); c.err != nil {
		return
	}
	if err := msgpack.Unmarshal(before[:len(before)-len(c.b)], v); err != nil {
		c.fail("%v", err)
	}
}

// turnColumns is the table of turns as it lies in the body.
type turnColumns struct{ seg, prompt, completion, times, hit, reward []byte }

func turns(c *cursor) []Turn {
	var t turnColumns
	var finish []string
	c.fields(func(key string) bool {
		switch key {
		case "seg":
			t.seg = c.array(4)
		case "p":
			t.prompt = c.array(8)
		case "c":
			t.completion = c.array(8)
		case "t":
			t.times = c.array(24)
		case "hit":
			t.hit = c.array(4)
		case "r":
			t.reward = c.array(8)
		case "fin":
			finish = c.strings()
		default:
			return false
		}
		return true
	})
	n := len(finish)
	if c.err == nil && !t.long(n) {
		c.fail("columns of unequal length")
	}
	if c.err != nil {
		return nil
	}
	out := make([]Turn, n)
	for i := range out {
		out[i] = t.turn(i, finish[i])
	}
	return out
}

func (t *turnColumns) long(n int) bool {
	return n <= maxTurns && len(t.seg) == 4*n && len(t.prompt) == 8*n && len(t.completion) == 8*n &&
		len(t.times) == 24*n && len(t.hit) == 4*n && len(t.reward) == 8*n
}

func (t *turnColumns) turn(i int, finish string) Turn {
	return Turn{
		Segment: int(i32(t.seg, i)),
		Prompt:  Span{i32(t.prompt, 2*i), i32(t.prompt, 2*i+1)}, Completion: Span{i32(t.completion, 2*i), i32(t.completion, 2*i+1)},
		Queued: i64(t.times, 3*i), Generated: i64(t.times, 3*i+1), Stepped: i64(t.times, 3*i+2),
		Cached: i32(t.hit, i), Finish: finish, Reward: math.Float64frombits(uint64(i64(t.reward, i))),
	}
}

func i64(p []byte, i int) int64 { return int64(binary.LittleEndian.Uint64(p[8*i:])) }

func (c *cursor) strings() []string {
	n := c.arrayLen()
	if n > maxTurns {
		c.fail("%d strings", n)
	}
	var out []string
	for range n {
		if c.err != nil {
			return nil
		}
		out = append(out, c.str())
	}
	return out
}

// DecodeMessage validates b and decodes it into v, a pointer to one of this
// package's message structs.
func DecodeMessage(b []byte, v any) error {
	if err := Validate(b); err != nil {
		return err
	}
	if err := msgpack.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return nil
}

// EncodeMessage is the msgpack form of one of this package's message structs.
// Equal messages give equal bytes.
func EncodeMessage(v any) ([]byte, error) {
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	var buf appendWriter
	enc.ResetWriter(&buf)
	enc.UseCompactInts(true)
	enc.SetSortMapKeys(true)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return buf, nil
}

type appendWriter []byte

func (w *appendWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
