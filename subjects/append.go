package subjects

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"
)

// The append functions write one msgpack value, in its shortest form except
// that floats always take eight bytes.

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(b, uint64(v))
	case v >= -32:
		return append(b, byte(v))
	case v >= math.MinInt8:
		return append(b, 0xd0, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
}

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

func appendFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0xc3)
	}
	return append(b, 0xc2)
}

// appendText writes a string. Bytes that are not UTF-8 (an engine may cut a
// character in two) become U+FFFD: a reader in another language would refuse them.
func appendText[S ~string](b []byte, v S) []byte {
	s := string(v)
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	default:
		b = appendLen(b, n, 0xd9, 0xda, 0xdb)
	}
	return append(b, s...)
}

func appendBin(b []byte, v []byte) []byte {
	return append(appendLen(b, len(v), 0xc4, 0xc5, 0xc6), v...)
}

func appendMapLen(b []byte, n int) []byte {
	if n < 16 {
		return append(b, 0x80|byte(n))
	}
	return appendLen(b, n, 0, 0xde, 0xdf)
}

func appendArrayLen(b []byte, n int) []byte {
	if n < 16 {
		return append(b, 0x90|byte(n))
	}
	return appendLen(b, n, 0, 0xdc, 0xdd)
}

// appendLen writes the head of a value of length n; the type byte for 8 bits
// is 0 for types that have none.
func appendLen(b []byte, n int, in8, in16, in32 byte) []byte {
	switch {
	case n <= math.MaxUint8 && in8 != 0:
		return append(b, in8, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, in16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, in32), uint32(n))
}
