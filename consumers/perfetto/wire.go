package perfetto

import (
	"encoding/binary"
	"math"
)

// The wire types of protobuf that a trace needs
// (protobuf.dev/programming-guides/encoding).
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
)

// message is the wire form of a protobuf message, appended field by field.
type message []byte

func (m *message) tag(field, wire int) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|uint64(wire))
}

// uint appends an unsigned integer, an enum or a bool.
func (m *message) uint(field int, v uint64) {
	m.tag(field, wireVarint)
	*m = binary.AppendUvarint(*m, v)
}

// int appends an int32 or int64: negative ones take ten bytes.
func (m *message) int(field int, v int64) { m.uint(field, uint64(v)) }

func (m *message) fixed64(field int, v uint64) {
	m.tag(field, wireFixed64)
	*m = binary.LittleEndian.AppendUint64(*m, v)
}

func (m *message) double(field int, v float64) { m.fixed64(field, math.Float64bits(v)) }

func (m *message) text(field int, v string) {
	m.tag(field, wireBytes)
	*m = binary.AppendUvarint(*m, uint64(len(v)))
	*m = append(*m, v...)
}

// embed appends a message as a field.
func (m *message) embed(field int, v message) {
	m.tag(field, wireBytes)
	*m = binary.AppendUvarint(*m, uint64(len(v)))
	*m = append(*m, v...)
}

func bit(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}
