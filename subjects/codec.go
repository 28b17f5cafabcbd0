package subjects

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/vmihailenco/msgpack/v5"
)

// EncodeTrajectory appends the trajectory's body to buf: one msgpack map whose
// arrays are little-endian binaries (docs/wire.md has the table). Equal
// trajectories give equal bytes.
func EncodeTrajectory(buf *bytes.Buffer, t *Trajectory) error {
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.ResetWriter(buf)
	enc.UseCompactInts(true)
	enc.SetSortMapKeys(true)
	w := writer{enc: enc}
	w.trajectory(t)
	return w.err
}

// writer writes msgpack and keeps the first error.
type writer struct {
	enc     *msgpack.Encoder
	err     error
	scratch []byte
}

func (w *writer) do(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) mapLen(n int)   { w.do(w.enc.EncodeMapLen(n)) }
func (w *writer) arrayLen(n int) { w.do(w.enc.EncodeArrayLen(n)) }
func (w *writer) text(s string)  { w.do(w.enc.EncodeString(s)) }

func (w *writer) int(key string, v int64)     { w.text(key); w.do(w.enc.EncodeInt(v)) }
func (w *writer) str(key, v string)           { w.text(key); w.text(v) }
func (w *writer) float(key string, v float64) { w.text(key); w.do(w.enc.EncodeFloat64(v)) }
func (w *writer) any(key string, v any)       { w.text(key); w.do(w.enc.Encode(v)) }

// bin writes an array of n elements that put appends to the scratch buffer.
func (w *writer) bin(key string, n int, put func(b []byte, i int) []byte) {
	b := w.scratch[:0]
	for i := range n {
		b = put(b, i)
	}
	w.scratch = b
	w.text(key)
	w.do(w.enc.EncodeBytesLen(len(b)))
	_, err := w.enc.Writer().Write(b)
	w.do(err)
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
	w.bin("task", len(t.Task), func(b []byte, i int) []byte { return append(b, t.Task[i]) })
	w.int("seed", t.Seed)
	w.str("prod", t.Producer)
	w.str("eng", t.Engine)
	w.str("tok", t.Tokenizer)
	w.any("sp", &t.Sampling)
	w.str("st", string(t.Status))
	w.str("why", t.Reason)
	w.float("r", t.Reward)
	w.components(t.Components)
	w.text("time")
	w.arrayLen(2)
	w.do(w.enc.EncodeInt(t.Started))
	w.do(w.enc.EncodeInt(t.Finished))
	w.segments(t.Segments)
	w.turns(t.Turns)
	w.any("msgs", t.Messages)
}

func (w *writer) components(c map[string]float64) {
	if c == nil {
		c = map[string]float64{}
	}
	w.any("rc", c)
}

func (w *writer) segments(segments []Segment) {
	w.text("seg")
	w.arrayLen(len(segments))
	for i := range segments {
		s := &segments[i]
		w.mapLen(6)
		w.int("par", int64(s.Parent))
		w.int("sh", int64(s.Shared))
		w.bin("ids", len(s.Tokens), func(b []byte, i int) []byte { return le32(b, s.Tokens[i]) })
		w.bin("lp", len(s.Logprobs), func(b []byte, i int) []byte {
			return binary.LittleEndian.AppendUint32(b, math.Float32bits(s.Logprobs[i]))
		})
		w.bin("ver", len(s.Versions), func(b []byte, i int) []byte {
			v := s.Versions[i]
			return le32(le32(le32(b, v.Start), v.End), int32(v.Version))
		})
		w.bin("mask", len(s.LossMask), func(b []byte, i int) []byte { return span(b, s.LossMask[i]) })
	}
}

// turns writes the table of turns by column.
func (w *writer) turns(t []Turn) {
	w.text("turns")
	w.mapLen(7)
	w.bin("seg", len(t), func(b []byte, i int) []byte { return le32(b, int32(t[i].Segment)) })
	w.bin("p", len(t), func(b []byte, i int) []byte { return span(b, t[i].Prompt) })
	w.bin("c", len(t), func(b []byte, i int) []byte { return span(b, t[i].Completion) })
	w.bin("t", len(t), func(b []byte, i int) []byte {
		return le64(le64(le64(b, t[i].Queued), t[i].Generated), t[i].Stepped)
	})
	w.bin("hit", len(t), func(b []byte, i int) []byte { return le32(b, t[i].Cached) })
	w.bin("r", len(t), func(b []byte, i int) []byte { return le64(b, int64(math.Float64bits(t[i].Reward))) })
	w.text("fin")
	w.arrayLen(len(t))
	for i := range t {
		w.text(t[i].Finish)
	}
}

func le32(b []byte, v int32) []byte { return binary.LittleEndian.AppendUint32(b, uint32(v)) }
func le64(b []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(v)) }
func span(b []byte, s Span) []byte  { return le32(le32(b, s.Start), s.End) }
