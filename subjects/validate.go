package subjects

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrMalformed is wrapped by every error about bytes that are not what this
// package writes: broken msgpack, wrong types, unequal lengths, values out of range.
var ErrMalformed = errors.New("malformed message")

// maxDepth bounds nesting; the deepest message type here needs seven levels.
const maxDepth = 16

// Validate reports whether b is exactly one well-formed msgpack value: every
// length within what is left, nesting bounded, nothing trailing, no extension
// types. It allocates nothing and runs before any decoding: msgpack v5
// trusts lengths and six bytes can exhaust the memory of a reader that does.
func Validate(b []byte) error {
	rest, err := validateValue(b, maxDepth)
	if err != nil {
		return err
	}
	if len(rest) != 0 {
		return fmt.Errorf("%w: %d bytes after the value", ErrMalformed, len(rest))
	}
	return nil
}

// shape is how a value continues after its first byte.
type shape struct {
	lenBytes int // width of the length field, 0 when the length is fixed
	fixed    int // payload bytes or items when lenBytes is 0
	items    int // 1 for arrays, 2 for maps: the length counts values, not bytes
}

// shapes of the first bytes 0xc0 to 0xdf; extension types and 0xc1 are absent.
var shapes = map[byte]shape{
	0xc0: {}, 0xc2: {}, 0xc3: {},
	0xc4: {lenBytes: 1}, 0xc5: {lenBytes: 2}, 0xc6: {lenBytes: 4},
	0xca: {fixed: 4}, 0xcb: {fixed: 8},
	0xcc: {fixed: 1}, 0xcd: {fixed: 2}, 0xce: {fixed: 4}, 0xcf: {fixed: 8},
	0xd0: {fixed: 1}, 0xd1: {fixed: 2}, 0xd2: {fixed: 4}, 0xd3: {fixed: 8},
	0xd9: {lenBytes: 1}, 0xda: {lenBytes: 2}, 0xdb: {lenBytes: 4},
	0xdc: {lenBytes: 2, items: 1}, 0xdd: {lenBytes: 4, items: 1},
	0xde: {lenBytes: 2, items: 2}, 0xdf: {lenBytes: 4, items: 2},
}

var shapeTable = func() (t [256]struct {
	shape
	ok bool
}) {
	for c := range 256 {
		s, ok := shapes[byte(c)]
		switch {
		case c < 0x80 || c >= 0xe0: // small ints
			s, ok = shape{}, true
		case c < 0x90: // small maps
			s, ok = shape{fixed: c & 0x0f, items: 2}, true
		case c < 0xa0: // small arrays
			s, ok = shape{fixed: c & 0x0f, items: 1}, true
		case c < 0xc0: // small strings
			s, ok = shape{fixed: c & 0x1f}, true
		}
		t[c].shape, t[c].ok = s, ok
	}
	return t
}()

func validateValue(b []byte, depth int) ([]byte, error) {
	n, items, b, err := head(b)
	if err != nil {
		return nil, err
	}
	if items == 0 {
		return b[n:], nil
	}
	if depth == 0 {
		return nil, fmt.Errorf("%w: nested deeper than %d", ErrMalformed, maxDepth)
	}
	for range n * items {
		if b, err = validateValue(b, depth-1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// head reads a value's first bytes: its length in payload bytes (items 0) or
// in elements (items 1 for an array, 2 for a map), and what follows. The
// length is never more than what follows can hold.
func head(b []byte) (n, items int, rest []byte, err error) {
	if len(b) == 0 {
		return 0, 0, nil, fmt.Errorf("%w: cut short", ErrMalformed)
	}
	s := &shapeTable[b[0]]
	if !s.ok {
		return 0, 0, nil, fmt.Errorf("%w: type byte 0x%02x", ErrMalformed, b[0])
	}
	b = b[1:]
	n = s.fixed
	if s.lenBytes > 0 {
		if len(b) < s.lenBytes {
			return 0, 0, nil, fmt.Errorf("%w: cut short", ErrMalformed)
		}
		n, b = lengthOf(b, s.lenBytes), b[s.lenBytes:]
	}
	if n > len(b) || n > len(b)/max(1, s.items) { // an element takes a byte at least
		return 0, 0, nil, fmt.Errorf("%w: length %d with %d bytes left", ErrMalformed, n, len(b))
	}
	return n, s.items, b, nil
}

func lengthOf(b []byte, width int) int {
	switch width {
	case 1:
		return int(b[0])
	case 2:
		return int(binary.BigEndian.Uint16(b))
	}
	return int(min(binary.BigEndian.Uint32(b), math.MaxInt32)) // no message is that long; int may have 32 bits
}
