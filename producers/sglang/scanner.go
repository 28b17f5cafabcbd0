package sglang

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// scanner walks over JSON without building values: the caller takes what it
// knows and skips the rest. The first error sticks and ends every loop. It is
// lenient where leniency is harmless (a skipped scalar need not be a number).
type scanner struct {
	b   []byte
	at  int
	err error
}

var errCut = errors.New("answer is cut short")

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("at byte %d: "+format, append([]any{s.at}, args...)...)
	}
}

// peek is the next byte that is no white space; 0 at the end or after an error.
func (s *scanner) peek() byte {
	for s.err == nil && s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case ' ', '\n', '\t', '\r':
			s.at++
		default:
			return c
		}
	}
	if s.err == nil {
		s.err = errCut
	}
	return 0
}

func (s *scanner) take(c byte) {
	if got := s.peek(); got != c {
		s.fail("%q where %q should be", got, c)
		return
	}
	s.at++
}

// object hands every key to fn, which must take or skip its value.
func (s *scanner) object(fn func(key string)) {
	s.list('{', '}', func() {
		key := s.text()
		s.take(':')
		if s.err == nil {
			fn(key)
		}
	})
}

// array calls fn for every element, which it must take or skip.
func (s *scanner) array(fn func()) { s.list('[', ']', fn) }

func (s *scanner) list(opening, closing byte, element func()) {
	s.take(opening)
	if s.peek() == closing {
		s.at++
		return
	}
	for s.err == nil {
		element()
		switch c := s.peek(); c {
		case ',':
			s.at++
		case closing:
			s.at++
			return
		default:
			s.fail("%q in a list", c)
		}
	}
}

// raw is the next string with its quotes.
func (s *scanner) raw() []byte {
	s.take('"')
	start := s.at - 1
	for s.err == nil && s.at < len(s.b) {
		switch s.b[s.at] {
		case '"':
			s.at++
			return s.b[start:s.at]
		case '\\':
			s.at++
		}
		s.at++
	}
	if s.err == nil {
		s.err = errCut
	}
	return nil
}

func (s *scanner) text() string {
	raw := s.raw()
	if s.err != nil {
		return ""
	}
	for _, c := range raw {
		if c == '\\' {
			var v string
			if err := json.Unmarshal(raw, &v); err != nil {
				s.fail("%v", err)
			}
			return v
		}
	}
	return string(raw[1 : len(raw)-1])
}

// scalar is the next number, true, false or null, as it is written.
func (s *scanner) scalar() []byte {
	s.peek()
	start := s.at
	for s.err == nil && s.at < len(s.b) {
		switch s.b[s.at] {
		case ',', ']', '}', ' ', '\n', '\t', '\r', '"', '[', '{', ':':
			if s.at == start {
				s.fail("%q where a value should be", s.b[s.at])
			}
			return s.b[start:s.at]
		}
		s.at++
	}
	if s.at == start && s.err == nil {
		s.err = errCut
	}
	return s.b[start:s.at]
}

func (s *scanner) int() int64 {
	raw := s.scalar()
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		s.fail("%.40q is no whole number", raw)
	}
	return v
}

func (s *scanner) id() int32 {
	v := s.int()
	if v < 0 || v > math.MaxInt32 {
		s.fail("%d is no token id", v)
	}
	return int32(v)
}

// float reads a number. null, which engines write for values that JSON cannot
// hold, is not a number.
func (s *scanner) float() float64 {
	raw := s.scalar()
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		s.fail("%.40q is no number", raw)
	}
	return v
}

// optional reports whether a value other than null follows; null is skipped.
func (s *scanner) optional() bool {
	if s.peek() == 'n' {
		s.skip()
		return false
	}
	return s.err == nil
}

const maxNesting = 64

// skip passes over one value.
func (s *scanner) skip() {
	depth := 0
	for s.err == nil {
		switch s.peek() {
		case '{', '[':
			s.at++
			if depth++; depth > maxNesting {
				s.fail("nested deeper than %d", maxNesting)
			}
			continue // what follows is inside
		case '}', ']':
			s.at++
			depth--
		case '"':
			s.raw()
		case ',', ':':
			if depth == 0 {
				s.fail("a value is missing")
				return
			}
			s.at++
			continue
		default:
			s.scalar()
		}
		if depth < 0 {
			s.fail("a value is missing")
		}
		if depth == 0 {
			return
		}
	}
}

// end wants nothing but white space to follow.
func (s *scanner) end() {
	if s.err != nil {
		return
	}
	if c := s.peek(); s.err == nil {
		s.fail("%q after the value", c)
		return
	}
	s.err = nil // the end is where it should be
}
