package feed

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzFrames reads frames whose headers are mostly sound, so that what is
// behind the header is reached: a stream of two, the second cut somewhere.
func FuzzFrames(f *testing.F) {
	f.Add(uint16(TypeHello), []byte(`{"v":1,"client":"x","checkpoint_step":null}`), []byte(nil), uint16(1000))
	f.Add(uint16(TypeWelcome), []byte(`{"v":1,"slots":3,"slot_bytes":-1,"trainer":{}}`), []byte(nil), uint16(5))
	f.Add(uint16(TypeBatch), []byte(`{"id":1,"slot":-1,"arrays":[{"name":"t","shape":[1,2]}]}`), []byte("12345678"), uint16(70))
	f.Add(uint16(TypeEnd), []byte(`{"reason":"complete","steps":1e3}`), []byte(nil), uint16(0))
	f.Add(uint16(TypeOK), []byte(`{"missing":[],"timed_out":true}`), []byte(nil), uint16(30))
	f.Add(uint16(TypeSpans), []byte(`{"id":1,"at":1,"names":["a"],"name":[0],"lane":[0],"start":[-5],"duration":[5],"args":[{"row":0,"key":0,"value":1}]}`), []byte(nil), uint16(3))
	f.Add(uint16(99), []byte(`[]`), []byte{0}, uint16(24))
	f.Fuzz(func(t *testing.T, kind uint16, text, data []byte, cut uint16) {
		one := append(header{kind: Type(kind), json: uint32(len(text)), data: uint64(len(data))}.append(nil), text...)
		one = append(one, data...)
		wire := append(bytes.Clone(one), one[:min(int(cut), len(one))]...)
		r := bytes.NewReader(wire)
		got, err := Read(r, limits)
		if err != nil {
			if !errors.Is(err, ErrProtocol) {
				t.Fatalf("a whole frame ends with %v", err)
			}
			return
		}
		if got.Type != Type(kind) || !bytes.Equal(got.JSON, text) || !bytes.Equal(got.Data, data) {
			t.Fatalf("read %v, sent type %d, %q, %q", got, kind, text, data)
		}
		for _, v := range []any{new(Hello), new(Welcome), new(Request), new(Batch), new(Release), new(Commit), new(Checkpointed), new(Weights),
			new(WaitWeights), new(OK), new(Refusal), new(End), new(Notice), new(Bye), new(Spans)} {
			if err := got.Decode(v); err != nil && !errors.Is(err, ErrProtocol) {
				t.Fatalf("%T: %v is not ErrProtocol", v, err)
			}
		}
		switch again, err := Read(r, limits); {
		case cut == 0 && err != io.EOF, 0 < int(cut) && int(cut) < len(one) && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Fatalf("cut at %d of %d: %v", cut, len(one), err)
		case int(cut) >= len(one) && (err != nil || !bytes.Equal(again.JSON, text)):
			t.Fatalf("second frame: %v", err)
		}
	})
}
