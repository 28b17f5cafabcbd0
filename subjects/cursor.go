package subjects

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
)

// cursor reads msgpack in place: strings and binaries are slices of the input,
// nothing is copied. It keeps the first error; later reads return zero values.
// It is used on bytes that passed [Validate], but trusts no length all the same.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
	}
}

// class is a kind of value: a range of small first bytes and one of wide ones.
type class struct {
	name              string
	low, high         byte // none when low > high
	wideLow, wideHigh byte
}

var (
	aMap     = class{"a map", 0x80, 0x8f, 0xde, 0xdf}
	anArray  = class{"an array", 0x90, 0x9f, 0xdc, 0xdd}
	aString  = class{"a string", 0xa0, 0xbf, 0xd9, 0xdb}
	aBinary  = class{"binary", 1, 0, 0xc4, 0xc6}
	anInt    = class{"an integer", 1, 0, 0xcc, 0xd3}
	aFloat   = class{"a float", 1, 0, 0xca, 0xcb}
	aBoolean = class{"a boolean", 1, 0, 0xc2, 0xc3}
)

// take reads a value's head, which must be of class k, and returns its length.
func (c *cursor) take(k *class) int {
	if c.err != nil {
		return 0
	}
	if len(c.b) == 0 {
		c.fail("cut short")
		return 0
	}
	first := c.b[0]
	if (first < k.low || first > k.high) && (first < k.wideLow || first > k.wideHigh) {
		c.fail("%s where %s is wanted", typeName(first), k.name)
		return 0
	}
	n, _, rest, err := head(c.b)
	if err != nil {
		c.err = err
		return 0
	}
	c.b = rest
	return n
}

func (c *cursor) mapLen() int   { return c.take(&aMap) }
func (c *cursor) arrayLen() int { return c.take(&anArray) }

func (c *cursor) bytes(n int) []byte {
	if c.err != nil {
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// text reads a string, which must be UTF-8, in place.
func (c *cursor) text() []byte {
	p := c.bytes(c.take(&aString))
	if !utf8.Valid(p) {
		c.fail("text is not UTF-8")
	}
	return p
}

func (c *cursor) str() string { return string(c.text()) }
func (c *cursor) bin() []byte { return c.bytes(c.take(&aBinary)) }

// array reads a binary whose elements are width bytes wide.
func (c *cursor) array(width int) []byte {
	p := c.bin()
	if c.err == nil && len(p)%width != 0 {
		c.fail("%d bytes of %d-byte elements", len(p), width)
	}
	return p
}

func (c *cursor) bool() bool {
	first := c.peek()
	c.take(&aBoolean)
	return first == 0xc3
}

// peek is the first byte of the next value, 0xc1 (which no value has) at the end.
func (c *cursor) peek() byte {
	if c.err != nil || len(c.b) == 0 {
		return 0xc1
	}
	return c.b[0]
}

// int reads any integer that fits int64.
func (c *cursor) int() int64 {
	negative, u := c.integer()
	if c.err == nil && !negative && u > math.MaxInt64 {
		c.fail("integer %d out of range", u)
		return 0
	}
	return int64(u)
}

// intIn reads an integer of [low, high].
func (c *cursor) intIn(low, high int64) int64 {
	v := c.int()
	if c.err == nil && (v < low || v > high) {
		c.fail("%d is not in %d to %d", v, low, high)
		return 0
	}
	return v
}

// uint reads any integer that fits uint64.
func (c *cursor) uint() uint64 {
	negative, u := c.integer()
	if c.err == nil && negative {
		c.fail("integer %d out of range", int64(u))
		return 0
	}
	return u
}

// integer reads an integer: its two's complement and whether it is negative.
func (c *cursor) integer() (negative bool, u uint64) {
	kind := c.peek()
	if c.err == nil && len(c.b) > 0 && (kind < 0x80 || kind >= 0xe0) {
		c.b = c.b[1:]
		return kind >= 0xe0, uint64(int8(kind))
	}
	p := c.bytes(c.take(&anInt))
	if c.err != nil {
		return false, 0
	}
	for _, x := range p {
		u = u<<8 | uint64(x)
	}
	if kind < 0xd0 {
		return false, u
	}
	shift := 64 - 8*len(p)
	v := int64(u<<shift) >> shift // signed: extend
	return v < 0, uint64(v)
}

// float reads a float of either width, or an integer.
func (c *cursor) float() float64 {
	if kind := c.peek(); kind != 0xca && kind != 0xcb {
		if kind >= 0x80 && kind < 0xe0 && (kind < 0xcc || kind > 0xd3) {
			c.take(&aFloat) // fails and says what is wanted
		}
		return float64(c.int())
	}
	p := c.bytes(c.take(&aFloat))
	switch {
	case c.err != nil:
		return 0
	case len(p) == 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(p)))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(p))
}

// skip passes over one value of any type and returns its bytes.
func (c *cursor) skip() []byte {
	if c.err != nil {
		return nil
	}
	rest, err := validateValue(c.b, maxDepth)
	if err != nil {
		c.err = err
		return nil
	}
	v := c.b[:len(c.b)-len(rest)]
	c.b = rest
	return v
}

// maxFields bounds a map with named fields; those of a later schema included.
const maxFields = 64

// fields calls fn for each key of a map with the cursor at its value. fn
// returns false for a key it does not know, whose value is then skipped. A key
// that comes twice is refused: two readers could disagree on which one counts.
func (c *cursor) fields(fn func(key []byte) bool) {
	var seen [maxFields][]byte
	n := c.mapLen()
	if n > maxFields {
		c.fail("%d fields", n)
	}
	for i := range n {
		key := c.text()
		if c.err != nil {
			return
		}
		for _, k := range seen[:i] {
			if bytes.Equal(k, key) {
				c.fail("field %.32q comes twice", key)
				return
			}
		}
		seen[i] = key
		if !fn(key) {
			c.skip()
		}
		if c.err != nil {
			c.err = fmt.Errorf("field %.32q: %w", key, c.err)
			return
		}
	}
}

// floats calls fn for each entry of a map from names to numbers, at most limit.
func (c *cursor) floats(limit int, fn func(key []byte, v float64)) {
	n := c.mapLen()
	if n > limit {
		c.fail("%d entries", n)
	}
	for range n {
		key := c.text()
		v := c.float()
		if c.err != nil {
			c.err = fmt.Errorf("entry %.32q: %w", key, c.err)
			return
		}
		fn(key, v)
	}
}

// typeName says what kind of value starts with this byte.
func typeName(first byte) string {
	switch {
	case first < 0x80 || first >= 0xe0 || first >= 0xcc && first <= 0xd3:
		return "an integer"
	case first < 0x90 || first == 0xde || first == 0xdf:
		return "a map"
	case first < 0xa0 || first == 0xdc || first == 0xdd:
		return "an array"
	case first < 0xc0 || first >= 0xd9 && first <= 0xdb:
		return "a string"
	case first == 0xc0:
		return "nil"
	case first == 0xc2 || first == 0xc3:
		return "a boolean"
	case first >= 0xc4 && first <= 0xc6:
		return "binary"
	case first == 0xca || first == 0xcb:
		return "a float"
	}
	return fmt.Sprintf("type byte 0x%02x", first)
}
