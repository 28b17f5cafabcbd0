package bus

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/subjects"
)

// FuzzPartHeaders reads the headers of a body that travelled in parts: a list
// is refused, or names sequences that ascend and lie below the last one.
func FuzzPartHeaders(f *testing.F) {
	f.Add(uint64(9), "1,2,3", "2/4")
	f.Add(uint64(1<<63), "18446744073709551615", "1/2")
	f.Add(uint64(3), "3", "")
	f.Add(uint64(9), "1,,2", "0/0")
	f.Add(uint64(9), strings.Repeat("1,", 5000), "1/5000")
	f.Fuzz(func(t *testing.T, seq uint64, list, part string) {
		hdr := nats.Header{subjects.HeaderParts: {list}}
		parts, err := partSequences(seq, hdr)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("error %v is not ErrMalformed", err)
		}
		low, last := Lowest(seq, hdr), uint64(0)
		if low > seq || err != nil && low != seq {
			t.Fatalf("lowest %d of message %d, %v", low, seq, err)
		}
		for _, p := range parts {
			if p <= last || p >= seq {
				t.Fatalf("parts %v of message %d", parts, seq)
			}
			last = p
		}
		if len(parts) > 0 && low != parts[0] {
			t.Fatalf("lowest %d of parts %v", low, parts)
		}
		if !IsPart(nats.Header{subjects.HeaderPart: {part}}) || IsPart(hdr) {
			t.Fatal("an early part is told by its header alone")
		}
	})
}

// FuzzRunRecord reads a run's record, as every role does first: a person may
// have edited it by hand.
func FuzzRunRecord(f *testing.F) {
	whole, err := json.Marshal(&subjects.RunRecord{V: 1, Run: "demo", Schema: 1, Version: "v0.1.0", Recipe: json.RawMessage(`{"name":"demo"}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"v":1e400,"recipe":}`))
	f.Add([]byte(`{"recipe":null,"schema":"1"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r subjects.RunRecord
		if json.Unmarshal(data, &r) != nil {
			return
		}
		first, err := json.Marshal(&r)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		var again subjects.RunRecord
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatal(err)
		}
		if second, err := json.Marshal(&again); err != nil || string(second) != string(first) {
			t.Fatalf("written twice, it differs: %s, %s, %v", first, second, err)
		}
	})
}
