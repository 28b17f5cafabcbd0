package layout

import (
	"encoding/binary"

	"github.com/headrace/headrace/subjects"
)

// cells are the arrays that have one element a token, in any layout. Indices
// count cells over all rows.
type cells struct {
	tokens, logprobs, mask []byte
	versions               []byte // nil when the layout has none
}

// constants are sources for copies, each as long as the longest row.
type constants struct {
	pad  []byte // pad ids
	ones []byte // bytes of 1
	none []byte // bytes of 0xff: int32 -1
	iota []byte // int32 0, 1, 2, ...
}

func newConstants(length int, pad int32) constants {
	c := constants{pad: make([]byte, 4*length), ones: make([]byte, length), none: make([]byte, 4*length), iota: make([]byte, 4*length)}
	fill32(c.pad, uint32(pad))
	for i := range length {
		c.ones[i] = 1
		put32(c.iota, i, uint32(i))
	}
	fill32(c.none, 1<<32-1)
	return c
}

// place writes tokens [from, to) of the segment to the cells from at on.
func (c *cells) place(s *subjects.SegmentView, from, to, at int, masked bool, k *constants) {
	copy(c.tokens[4*at:], s.Tokens[4*from:4*to])
	c.placeSampled(s, from, to, at, k)
	c.placeMask(s, from, to, at, masked, k)
}

// placeSampled writes logprobs and versions: the sampled tokens' own, zero and
// -1 elsewhere.
func (c *cells) placeSampled(s *subjects.SegmentView, from, to, at int, k *constants) {
	shift, next, read := at-from, from, 0
	for i := range s.VersionSpans() {
		v := s.VersionSpan(i)
		start, end := min(max(int(v.Start), from), to), min(max(int(v.End), from), to)
		if start < end {
			skip := read + start - int(v.Start)
			clear(c.logprobs[4*(shift+next) : 4*(shift+start)])
			copy(c.logprobs[4*(shift+start):], s.Logprobs[4*skip:4*(skip+end-start)])
			if c.versions != nil {
				copy(c.versions[4*(shift+next):4*(shift+start)], k.none)
				fill32(c.versions[4*(shift+start):4*(shift+end)], uint32(v.Version))
			}
			next = end
		}
		read += int(v.End - v.Start)
	}
	clear(c.logprobs[4*(shift+next) : 4*(shift+to)])
	if c.versions != nil {
		copy(c.versions[4*(shift+next):4*(shift+to)], k.none)
	}
}

func (c *cells) placeMask(s *subjects.SegmentView, from, to, at int, masked bool, k *constants) {
	shift, next := at-from, from
	for i := range s.Spans() {
		m := s.Span(i)
		start, end := min(max(int(m.Start), from), to), min(max(int(m.End), from), to)
		if masked || start >= end {
			continue
		}
		clear(c.mask[shift+next : shift+start])
		copy(c.mask[shift+start:shift+end], k.ones)
		next = end
	}
	clear(c.mask[shift+next : shift+to])
}

// blank writes padding to the cells [at, end).
func (c *cells) blank(at, end int, k *constants) {
	repeat(c.tokens[4*at:4*end], k.pad)
	clear(c.logprobs[4*at : 4*end])
	clear(c.mask[at:end])
	if c.versions != nil {
		repeat(c.versions[4*at:4*end], k.none)
	}
}

// repeat fills dst with copies of pattern.
func repeat(dst, pattern []byte) {
	for len(dst) > 0 {
		dst = dst[copy(dst, pattern):]
	}
}

// fill32 fills dst, whose length is a multiple of 4, with v.
func fill32(dst []byte, v uint32) {
	if len(dst) == 0 {
		return
	}
	binary.LittleEndian.PutUint32(dst, v)
	for n := 4; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

func put32(dst []byte, i int, v uint32) { binary.LittleEndian.PutUint32(dst[4*i:], v) }

// oldest is the lowest policy version that sampled the segment, -1 for none.
func oldest(s *subjects.SegmentView) subjects.PolicyVersion {
	v := subjects.NoVersion
	for i := range s.VersionSpans() {
		if x := s.VersionSpan(i).Version; v == subjects.NoVersion || x < v {
			v = x
		}
	}
	return v
}

// firstSampled is the length of the prompt: the tokens before the first
// sampled one, all of them when there is none.
func firstSampled(s *subjects.SegmentView) int {
	if s.VersionSpans() == 0 {
		return s.Len()
	}
	return int(s.VersionSpan(0).Start)
}
