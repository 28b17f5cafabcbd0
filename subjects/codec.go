package subjects

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// EncodeTrajectory appends the trajectory's body to buf: one msgpack map whose
// arrays are little-endian binaries (docs/wire.md has the table). Equal
// trajectories give equal bytes. It fails only on values the format has no room
// for; [Trajectory.Check] says whether a trainer can use the others.
func EncodeTrajectory(buf *bytes.Buffer, t *Trajectory) error {
	if err := t.fits(); err != nil {
		return err
	}
	buf.Grow(t.SizeHint())
	w := writer{b: buf.AvailableBuffer()}
	w.trajectory(t)
	buf.Write(w.b) // in place, unless the hint was too small
	return nil
}

// fits reports whether every number has room in its wire type.
func (t *Trajectory) fits() error {
	for i := range t.Segments {
		for _, v := range t.Segments[i].Versions {
			if v.Version < math.MinInt32 || v.Version > math.MaxInt32 {
				return fmt.Errorf("%w: segment %d: policy version %d beyond 32 bits", ErrMalformed, i, v.Version)
			}
		}
	}
	for i := range t.Turns {
		if s := t.Turns[i].Segment; s < math.MinInt32 || s > math.MaxInt32 {
			return fmt.Errorf("%w: turn %d: segment %d beyond 32 bits", ErrMalformed, i, s)
		}
	}
	return nil
}

// SizeHint is at least the size of the body in bytes, and little more: it is
// written without a second allocation (text that is not UTF-8 may need one).
func (t *Trajectory) SizeHint() int {
	const scalars, perTurn, perSegment, perItem = 512, 64, 96, 32
	n := scalars + len(t.Task) + len(t.Group) + len(t.Environment) + len(t.Producer) + len(t.Engine) +
		len(t.Tokenizer) + len(t.Reason) + perTurn*len(t.Turns) + perSegment*len(t.Segments)
	for i := range t.Segments {
		s := &t.Segments[i]
		n += 4*len(s.Tokens) + 4*len(s.Logprobs) + 12*len(s.Versions) + 8*len(s.LossMask)
	}
	for i := range t.Turns {
		n += len(t.Turns[i].Finish)
	}
	for i := range t.Messages {
		n += perItem + len(t.Messages[i].Role) + len(t.Messages[i].Content) + len(t.Messages[i].Name)
	}
	for k := range t.Components {
		n += perItem + len(k)
	}
	return n
}

// writer appends the fields of a body.
type writer struct{ b []byte }

// key writes a field's name; all of them are short.
func (w *writer) key(k string)                { w.b = append(append(w.b, 0xa0|byte(len(k))), k...) }
func (w *writer) int(key string, v int64)     { w.key(key); w.b = appendInt(w.b, v) }
func (w *writer) str(key, v string)           { w.key(key); w.b = appendText(w.b, v) }
func (w *writer) float(key string, v float64) { w.key(key); w.b = appendFloat(w.b, v) }
func (w *writer) mapLen(n int)                { w.b = appendMapLen(w.b, n) }
func (w *writer) arrayLen(n int)              { w.b = appendArrayLen(w.b, n) }

// bin starts a binary of n bytes, which the caller appends.
func (w *writer) bin(key string, n int) {
	w.key(key)
	w.b = appendLen(w.b, n, 0xc4, 0xc5, 0xc6)
}

func (w *writer) trajectory(t *Trajectory) {
	w.mapLen(21)
	w.int("v", SchemaVersion)
	w.str("k", string(t.Kind))
	w.str("g", string(t.Group))
	w.int("s", int64(t.Slot))
	w.int("a", int64(t.Attempt))
	w.int("rd", int64(t.Round))
	w.str("env", t.Environment)
	w.key("task")
	w.b = appendBin(w.b, t.Task)
	w.int("seed", t.Seed)
	w.str("prod", t.Producer)
	w.str("eng", t.Engine)
	w.str("tok", t.Tokenizer)
	w.sampling(&t.Sampling)
	w.str("st", string(t.Status))
	w.str("why", t.Reason)
	w.float("r", t.Reward)
	w.components(t.Components)
	w.key("time")
	w.arrayLen(2)
	w.b = appendInt(appendInt(w.b, t.Started), t.Finished)
	w.segments(t.Segments)
	w.turns(t.Turns)
	w.messages(t.Messages)
}

func (w *writer) sampling(s *Sampling) {
	w.key("sp")
	w.mapLen(5)
	w.float("temperature", s.Temperature)
	w.float("top_p", s.TopP)
	w.int("top_k", int64(s.TopK))
	w.int("max_new_tokens", int64(s.MaxNewTokens))
	w.key("seed")
	w.b = appendUint(w.b, s.Seed)
}

func (w *writer) components(c map[string]float64) {
	w.key("rc")
	w.b = appendFloats(w.b, c)
}

// appendFloats writes a map in the order of its keys.
func appendFloats(b []byte, m map[string]float64) []byte {
	b = appendMapLen(b, len(m))
	var few [16]string // on the stack
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		b = appendFloat(appendText(b, k), m[k])
	}
	return b
}

func (w *writer) segments(segments []Segment) {
	w.key("seg")
	w.arrayLen(len(segments))
	for i := range segments {
		s := &segments[i]
		w.mapLen(6)
		w.int("par", int64(s.Parent))
		w.int("sh", int64(s.Shared))
		w.bin("ids", 4*len(s.Tokens))
		w.b = appendArray(w.b, s.Tokens)
		w.bin("lp", 4*len(s.Logprobs))
		w.b = appendArray(w.b, s.Logprobs)
		w.bin("ver", 12*len(s.Versions))
		w.b = appendVersions(w.b, s.Versions)
		w.bin("mask", 8*len(s.LossMask))
		w.b = appendArray(w.b, s.LossMask)
	}
}

func appendVersions(b []byte, spans []VersionSpan) []byte {
	for _, v := range spans {
		b = le32(le32(le32(b, v.Start), v.End), int32(v.Version))
	}
	return b
}

// turns writes the table of turns by column.
func (w *writer) turns(t []Turn) {
	column := func(key string, width int, put func(b []byte, t *Turn) []byte) {
		w.bin(key, width*len(t))
		for i := range t {
			w.b = put(w.b, &t[i])
		}
	}
	w.key("turns")
	w.mapLen(7)
	column("seg", 4, func(b []byte, t *Turn) []byte { return le32(b, int32(t.Segment)) })
	column("p", 8, func(b []byte, t *Turn) []byte { return span(b, t.Prompt) })
	column("c", 8, func(b []byte, t *Turn) []byte { return span(b, t.Completion) })
	column("t", 24, func(b []byte, t *Turn) []byte { return le64(le64(le64(b, t.Queued), t.Generated), t.Stepped) })
	column("hit", 4, func(b []byte, t *Turn) []byte { return le32(b, t.Cached) })
	column("r", 8, func(b []byte, t *Turn) []byte { return le64(b, int64(math.Float64bits(t.Reward))) })
	w.key("fin")
	w.arrayLen(len(t))
	for i := range t {
		w.b = appendText(w.b, t[i].Finish)
	}
}

func (w *writer) messages(m []Message) {
	w.key("msgs")
	w.arrayLen(len(m))
	for i := range m {
		if m[i].Name == "" {
			w.mapLen(2)
		} else {
			w.mapLen(3)
			w.str("name", m[i].Name)
		}
		w.str("role", m[i].Role)
		w.str("content", m[i].Content)
	}
}
