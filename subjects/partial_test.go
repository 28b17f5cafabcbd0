package subjects

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestDecodePartial_GivesWhatComesBeforeTheFaultAndWhereItLies(t *testing.T) {
	whole := encoded(t, plain())
	want, err := DecodeTrajectory(whole)
	if err != nil {
		t.Fatal(err)
	}
	got, at, err := DecodePartial(whole)
	if err != nil || at != len(whole) || !reflect.DeepEqual(got, want) {
		t.Fatalf("a sound body: %v at %d of %d", err, at, len(whole))
	}
	lp := bytes.Index(whole, []byte("\xa2lp")) + 3
	spoilt := bytes.Clone(whole)
	spoilt[lp] = 0xc1
	got, at, err = DecodePartial(spoilt)
	if !errors.Is(err, ErrMalformed) || at != lp || got.Group == "" || got.Status == "" || len(got.Segments) != 0 || !strings.Contains(err.Error(), `"seg": segment 0: field "lp"`) {
		t.Errorf("a type byte that is none at %d: %v at %d, %+v", lp, err, at, got)
	}
	for name, b := range map[string][]byte{"no fields": {0x80}, "later version": {0x81, 0xa1, 'v', 0x7f}, "more": append(bytes.Clone(whole), 0), "no map": []byte("hello"), "nothing": nil} {
		if got, _, err := DecodePartial(b); !errors.Is(err, ErrMalformed) || got == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range whole { // however it is cut, nothing is worse than an error
		if _, at, err := DecodePartial(whole[:n]); err == nil || at > n {
			t.Fatalf("%d of %d bytes: %v at %d", n, len(whole), err, at)
		}
	}
}

func FuzzDecodePartial(f *testing.F) {
	f.Add([]byte("\x81\xa1v\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, at, err := DecodePartial(b)
		if at < 0 || at > len(b) {
			t.Fatalf("fault at %d of %d bytes", at, len(b))
		}
		if _, whole := ViewBody(b); (err == nil) != (whole == nil) {
			t.Fatalf("partial says %v, the reader %v", err, whole)
		}
	})
}
