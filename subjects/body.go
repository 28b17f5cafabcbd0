package subjects

import (
	"encoding/binary"
	"fmt"
)

// Limits on one trajectory. A body beyond them is malformed, not large.
const (
	MaxTokens   = 1 << 24 // tokens of a trajectory, all segments together
	maxSegments = 1 << 12
	maxTurns    = 1 << 16
	maxMessages = 1 << 16
)

// SegmentView is one segment as it lies in the body: little-endian arrays that
// alias the message, so that placing a row is a copy and decoding is none.
type SegmentView struct {
	Tokens   []byte // [T] int32
	Logprobs []byte // [sampled] float32
	Versions []byte // [n] (start, end, version) int32
	LossMask []byte // [n] (start, end) int32
	Parent   int
	Shared   int
}

// Len is the number of tokens.
func (s *SegmentView) Len() int { return len(s.Tokens) / 4 }

// BodyView is the part of a body that a trainer needs, aliasing the message.
type BodyView struct {
	Kind        Kind
	Group       GroupID
	Slot        Slot
	Attempt     Attempt
	Status      Status
	Reward      float64
	Environment string
	Tokenizer   string
	Segments    []SegmentView
}

// ViewBody validates the bytes of one body and returns its view. Only the
// structure is checked; [BodyView.Check] checks the values.
func ViewBody(b []byte) (BodyView, error) {
	var v BodyView
	err := readBody(b, func(c *cursor, key string) bool { return v.field(c, key) })
	return v, err
}

// readBody validates b, checks the schema version and hands every other field
// of its map to fn.
func readBody(b []byte, fn func(c *cursor, key string) bool) error {
	if err := Validate(b); err != nil {
		return err
	}
	c := &cursor{b: b}
	version := int64(0)
	c.fields(func(key string) bool {
		if key == "v" {
			version = c.int()
			return true
		}
		return fn(c, key)
	})
	if c.err != nil {
		return c.err
	}
	if version < 1 || version > SchemaVersion {
		return fmt.Errorf("%w: schema version %d, this build reads 1 to %d", ErrMalformed, version, SchemaVersion)
	}
	return nil
}

func (v *BodyView) field(c *cursor, key string) bool {
	switch key {
	case "k":
		v.Kind = Kind(c.str())
	case "g":
		v.Group = GroupID(c.str())
	case "s":
		v.Slot = Slot(c.int())
	case "a":
		v.Attempt = Attempt(c.int())
	case "st":
		v.Status = Status(c.str())
	case "r":
		v.Reward = c.float()
	case "env":
		v.Environment = c.str()
	case "tok":
		v.Tokenizer = c.str()
	case "seg":
		v.Segments = segmentViews(c)
	default:
		return false
	}
	return true
}

func segmentViews(c *cursor) []SegmentView {
	n := c.arrayLen()
	if n > maxSegments {
		c.fail("%d segments", n)
	}
	if c.err != nil {
		return nil
	}
	views := make([]SegmentView, n)
	for i := range views {
		s := &views[i]
		s.Parent = -1
		c.fields(func(key string) bool { return s.field(c, key) })
		if c.err != nil {
			return nil
		}
	}
	return views
}

func (s *SegmentView) field(c *cursor, key string) bool {
	switch key {
	case "ids":
		s.Tokens = c.array(4)
	case "lp":
		s.Logprobs = c.array(4)
	case "ver":
		s.Versions = c.array(12)
	case "mask":
		s.LossMask = c.array(8)
	case "par":
		s.Parent = int(c.int())
	case "sh":
		s.Shared = int(c.int())
	default:
		return false
	}
	return true
}

// array reads a binary whose elements are width bytes wide.
func (c *cursor) array(width int) []byte {
	p := c.bin()
	if c.err == nil && len(p)%width != 0 {
		c.fail("%d bytes of %d-byte elements", len(p), width)
	}
	return p
}

func i32(p []byte, i int) int32 { return int32(binary.LittleEndian.Uint32(p[4*i:])) }

// Span is the i-th span of the loss mask.
func (s *SegmentView) Span(i int) Span { return Span{i32(s.LossMask, 2*i), i32(s.LossMask, 2*i+1)} }

// Spans is the number of spans of the loss mask.
func (s *SegmentView) Spans() int { return len(s.LossMask) / 8 }

// VersionSpan is the i-th version span.
func (s *SegmentView) VersionSpan(i int) VersionSpan {
	return VersionSpan{i32(s.Versions, 3*i), i32(s.Versions, 3*i+1), PolicyVersion(i32(s.Versions, 3*i+2))}
}

// VersionSpans is the number of version spans.
func (s *SegmentView) VersionSpans() int { return len(s.Versions) / 12 }
