package feed

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Type is what a frame means; the number is the wire's.
type Type uint16

// The types of frames: who sends them, and what answers them.
const (
	TypeHello        Type = 1  // client; WELCOME or ERROR
	TypeWelcome      Type = 2  // bridge
	TypeNext         Type = 3  // client; BATCH, END or ERROR
	TypeBatch        Type = 4  // bridge
	TypeRelease      Type = 5  // client; no answer
	TypeCommit       Type = 6  // client; OK or ERROR
	TypeCheckpointed Type = 7  // client; OK or ERROR
	TypeWeights      Type = 8  // client; OK or ERROR
	TypeWaitWeights  Type = 9  // client; OK or ERROR
	TypeOK           Type = 10 // bridge
	TypeError        Type = 11 // bridge
	TypeEnd          Type = 12 // bridge
	TypeNotice       Type = 13 // either; no answer
	TypeBye          Type = 14 // client; no answer
	TypeSpans        Type = 15 // client, where WELCOME has spans; OK or ERROR
)

var typeNames = [...]string{1: "HELLO", "WELCOME", "NEXT", "BATCH", "RELEASE", "COMMIT", "CHECKPOINTED", "WEIGHTS",
	"WAIT_WEIGHTS", "OK", "ERROR", "END", "NOTICE", "BYE", "SPANS"}

// String is the type's name in the protocol's text.
func (t Type) String() string {
	if t.valid() {
		return typeNames[t]
	}
	return fmt.Sprintf("TYPE_%d", uint16(t))
}

func (t Type) valid() bool { return t >= TypeHello && t <= TypeSpans }

const (
	magic = 0x31465248
	// HeaderBytes is the size of a frame's header.
	HeaderBytes = 24
	// MaxJSON is the largest JSON object of a frame in bytes.
	MaxJSON = 16 << 20
)

// ErrProtocol is wrapped by every error about a frame that breaks the protocol.
var ErrProtocol = errors.New("protocol error")

func protocolErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrProtocol}, args...)...)
}

// Limits are the sizes in bytes that a reader accepts; they are checked before
// anything is allocated.
type Limits struct {
	JSON int
	Data int
}

// Frame is one frame as it came.
type Frame struct {
	Type Type
	JSON []byte
	Data []byte
}

// header is a frame's fixed part.
type header struct {
	kind Type
	json uint32
	data uint64
}

func (h header) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, magic)
	b = binary.LittleEndian.AppendUint16(b, uint16(h.kind))
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, h.json)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint64(b, h.data)
}

func parseHeader(b []byte, lim Limits) (header, error) {
	h := header{kind: Type(binary.LittleEndian.Uint16(b[4:])), json: binary.LittleEndian.Uint32(b[8:]), data: binary.LittleEndian.Uint64(b[16:])}
	switch {
	case binary.LittleEndian.Uint32(b) != magic:
		return h, protocolErrorf("frame starts with %x: not a feed", b[:4])
	case binary.LittleEndian.Uint16(b[6:]) != 0 || binary.LittleEndian.Uint32(b[12:]) != 0:
		return h, protocolErrorf("unknown flags")
	case !h.kind.valid():
		return h, protocolErrorf("unknown frame type %d", uint16(h.kind))
	case h.json > uint32(min(lim.JSON, MaxJSON)):
		return h, protocolErrorf("%s with %d bytes of JSON, the limit is %d", h.kind, h.json, lim.JSON)
	case h.data > uint64(lim.Data):
		return h, protocolErrorf("%s with %d raw bytes, the limit is %d", h.kind, h.data, lim.Data)
	}
	return h, nil
}

// Append appends a frame's header and JSON object to b; the caller sends the
// data bytes after it.
func Append(b []byte, t Type, body any, data int) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return b, fmt.Errorf("encode %s: %w", t, err)
	}
	if len(text) > MaxJSON {
		return b, protocolErrorf("%s with %d bytes of JSON, the limit is %d", t, len(text), MaxJSON)
	}
	b = header{kind: t, json: uint32(len(text)), data: uint64(data)}.append(b)
	return append(b, text...), nil
}

// Read reads one frame. The error is io.EOF where the stream ends between
// frames, else wraps [ErrProtocol] or is the reader's.
func Read(r io.Reader, lim Limits) (Frame, error) {
	var head [HeaderBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	return readRest(r, head[:], lim)
}

func readRest(r io.Reader, head []byte, lim Limits) (Frame, error) {
	h, err := parseHeader(head, lim)
	if err != nil {
		return Frame{}, err
	}
	f := Frame{Type: h.kind}
	if f.JSON, err = readExactly(r, int(h.json)); err != nil {
		return Frame{}, err
	}
	if f.Data, err = readExactly(r, int(h.data)); err != nil {
		return Frame{}, err
	}
	if len(f.JSON) == 0 || f.JSON[0] != '{' {
		return Frame{}, protocolErrorf("%s holds no JSON object", f.Type)
	}
	return f, nil
}

// readExactly takes memory as bytes arrive, so that a length alone costs none.
func readExactly(r io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	if n <= step {
		b := make([]byte, n)
		return b, noEOF(io.ReadFull(r, b))
	}
	var buf bytes.Buffer
	buf.Grow(step)
	got, err := io.CopyN(&buf, r, int64(n))
	return buf.Bytes(), noEOF(int(got), err)
}

func noEOF(_ int, err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Decode reads the frame's JSON object into v.
func (f Frame) Decode(v any) error {
	if err := json.Unmarshal(f.JSON, v); err != nil {
		return protocolErrorf("%s: %v", f.Type, err)
	}
	return nil
}
