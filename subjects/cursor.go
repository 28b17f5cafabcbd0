package subjects

import (
	"encoding/binary"
	"fmt"
	"math"
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

// take reads a value's head and wants it to be of one of the given classes.
func (c *cursor) take(want string, lo, hi byte, wide ...byte) (n int) {
	if c.err != nil {
		return 0
	}
	if len(c.b) == 0 {
		c.fail("cut short")
		return 0
	}
	first := c.b[0]
	ok := first >= lo && first <= hi
	for _, w := range wide {
		ok = ok || first == w
	}
	if !ok {
		c.fail("type byte 0x%02x where %s is wanted", first, want)
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

func (c *cursor) mapLen() int   { return c.take("a map", 0x80, 0x8f, 0xde, 0xdf) }
func (c *cursor) arrayLen() int { return c.take("an array", 0x90, 0x9f, 0xdc, 0xdd) }

func (c *cursor) bytes(n int) []byte {
	if c.err != nil {
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) rawStr() []byte { return c.bytes(c.take("a string", 0xa0, 0xbf, 0xd9, 0xda, 0xdb)) }
func (c *cursor) str() string    { return string(c.rawStr()) }
func (c *cursor) bin() []byte    { return c.bytes(c.take("binary", 0xc4, 0xc4, 0xc5, 0xc6)) }

// int reads any integer that fits int64.
func (c *cursor) int() int64 {
	if c.err != nil {
		return 0
	}
	if len(c.b) > 0 && (c.b[0] < 0x80 || c.b[0] >= 0xe0) {
		v := int64(int8(c.b[0]))
		c.b = c.b[1:]
		return v
	}
	if len(c.b) == 0 || c.b[0] < 0xcc || c.b[0] > 0xd3 {
		c.take("an integer", 1, 0)
		return 0
	}
	kind := c.b[0]
	return c.wideInt(kind, c.bytes(c.take("an integer", 0xcc, 0xd3)))
}

func (c *cursor) wideInt(kind byte, p []byte) int64 {
	if c.err != nil {
		return 0
	}
	var u uint64
	for _, x := range p {
		u = u<<8 | uint64(x)
	}
	if kind >= 0xd0 { // signed: extend
		shift := 64 - 8*len(p)
		return int64(u<<shift) >> shift
	}
	if u > math.MaxInt64 {
		c.fail("integer %d out of range", u)
		return 0
	}
	return int64(u)
}

// float reads a float of either width, or an integer.
func (c *cursor) float() float64 {
	if c.err != nil || len(c.b) == 0 || c.b[0] != 0xca && c.b[0] != 0xcb {
		return float64(c.int())
	}
	p := c.bytes(c.take("a float", 0xca, 0xcb))
	switch {
	case c.err != nil:
		return 0
	case len(p) == 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(p)))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(p))
}

// skip passes over one value of any type.
func (c *cursor) skip() {
	if c.err == nil {
		c.b, c.err = validateValue(c.b, maxDepth)
	}
}

// fields calls fn for each key of a map with the cursor at its value. fn
// returns false for a key it does not know, whose value is then skipped. A key
// that comes twice is refused: two readers could disagree on which one counts.
func (c *cursor) fields(fn func(key string) bool) {
	seen := make(map[string]bool, 16)
	for range c.mapLen() {
		key := c.str()
		if c.err != nil {
			return
		}
		if seen[key] {
			c.fail("field %q comes twice", key)
			return
		}
		seen[key] = true
		if !fn(key) {
			c.skip()
		}
		if c.err != nil {
			c.err = fmt.Errorf("field %.32q: %w", key, c.err)
			return
		}
	}
}
