package subjects

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// word is an element of a wire array: little-endian 32-bit words without padding.
type word interface{ int32 | float32 | Span }

// nativeLittle is whether memory already has the order of the wire.
var nativeLittle = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// memory is the memory of s as bytes, aliased. It is the only cast of the
// package: T has no padding, and a byte may have any alignment.
func memory[T word](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T))))
}

// appendArray appends the wire form of s to b.
func appendArray[T word](b []byte, s []T) []byte {
	n := len(b)
	b = append(b, memory(s)...)
	if !nativeLittle {
		swapWords(b[n:])
	}
	return b
}

// wireArray is the wire form of s, which aliases s where the host allows.
func wireArray[T word](s []T) []byte {
	if nativeLittle {
		return memory(s)
	}
	return appendArray(nil, s)
}

// readArray is the array whose wire form is p, in memory of its own; nil when empty.
func readArray[T word](p []byte) []T {
	n := len(p) / int(unsafe.Sizeof(*new(T)))
	if n == 0 {
		return nil
	}
	s := make([]T, n)
	copy(memory(s), p)
	if !nativeLittle {
		swapWords(memory(s))
	}
	return s
}

// swapWords reverses the bytes of every 32-bit word.
func swapWords(p []byte) {
	for ; len(p) >= 4; p = p[4:] {
		p[0], p[1], p[2], p[3] = p[3], p[2], p[1], p[0]
	}
}

func i32(p []byte, i int) int32 { return int32(binary.LittleEndian.Uint32(p[4*i:])) }
func i64(p []byte, i int) int64 { return int64(binary.LittleEndian.Uint64(p[8*i:])) }

func f64(p []byte, i int) float64 { return math.Float64frombits(uint64(i64(p, i))) }

func le32(b []byte, v int32) []byte { return binary.LittleEndian.AppendUint32(b, uint32(v)) }
func le64(b []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(v)) }
func span(b []byte, s Span) []byte  { return le32(le32(b, s.Start), s.End) }
