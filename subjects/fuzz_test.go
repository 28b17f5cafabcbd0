package subjects

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func seedBodies(f *testing.F) {
	for _, tr := range trajectories() {
		f.Add(encoded(f, tr))
	}
	f.Add(inBody())
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0xc6, 0xff, 0xff, 0xff, 0xff})
	f.Add(bytes.Repeat([]byte{0x91}, 100))
}

func seedMessages(f *testing.F) {
	for _, m := range messages() {
		b, err := EncodeMessage(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

func FuzzValidate(f *testing.F) {
	seedBodies(f)
	seedMessages(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Validate(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		if len(b) > 1 && Validate(b[:len(b)-1]) == nil {
			t.Fatal("a value without its last byte is valid too")
		}
		if Validate(append(b[:len(b):len(b)], 0)) == nil {
			t.Fatal("trailing bytes are valid")
		}
	})
}

func FuzzViewBody(f *testing.F) {
	seedBodies(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ViewBody(b)
		if err == nil {
			err = v.Check(1000)
		}
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		e := v.Index()
		if _, err := ParseIndex(e.String()); err != nil {
			t.Fatalf("a body that passes has an index entry that does not: %v", err)
		}
	})
}

func FuzzDecodeTrajectory(f *testing.F) {
	seedBodies(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, errView := ViewBody(b)
		tr, err := DecodeTrajectory(b)
		if (err == nil) != (errView == nil) {
			t.Fatalf("decode says %v, view says %v", err, errView)
		}
		if err != nil {
			return
		}
		if a, b := v.Check(1000), tr.Check(1000); (a == nil) != (b == nil) {
			t.Fatalf("view's check says %v, trajectory's %v", a, b)
		}
		first := encoded(t, tr) // not b: it may use longer forms and other orders
		again, err := DecodeTrajectory(first)
		if err != nil {
			t.Fatalf("what was decoded does not encode to a body: %v", err)
		}
		if !bytes.Equal(encoded(t, again), first) {
			t.Fatal("encoding is not stable")
		}
	})
}

func FuzzParseIndex(f *testing.F) {
	for _, tr := range trajectories() {
		e := tr.Index()
		f.Add(e.String())
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseIndex(s)
		if err != nil {
			if !errors.Is(err, ErrIndex) {
				t.Fatalf("error %v is not ErrIndex", err)
			}
			return
		}
		again, err := ParseIndex(e.String())
		if err != nil || again != e {
			t.Fatalf("printed and parsed again: %+v, %v, want %+v", again, err, e)
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	seedMessages(f)
	types := messages()
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, m := range types {
			v := reflect.New(reflect.TypeOf(m).Elem()).Interface()
			if err := DecodeMessage(b, v); err != nil {
				if !errors.Is(err, ErrMalformed) {
					t.Fatalf("%s: error %v is not ErrMalformed", name, err)
				}
				continue
			}
			first, err := EncodeMessage(v)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			again := reflect.New(reflect.TypeOf(m).Elem()).Interface()
			if err := DecodeMessage(first, again); err != nil {
				t.Fatalf("%s: decode what was encoded: %v", name, err)
			}
			if second, err := EncodeMessage(again); err != nil || !bytes.Equal(first, second) {
				t.Fatalf("%s: encoding is not stable: %v", name, err)
			}
		}
	})
}
