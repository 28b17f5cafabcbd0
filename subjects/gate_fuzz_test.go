package subjects

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
)

// FuzzGate hands the gate whatever a producer can write into subject and headers:
// what counts is by the producer of the subject and has the token of its lease,
// and a message counts whole or not at all.
func FuzzGate(f *testing.F) {
	key := []byte("0123456789abcdef0123456789abcdef")
	prefix := Run("r").RolloutSubject("")
	for _, tr := range trajectories() {
		e := tr.Index()
		f.Add(prefix+"p", "p", "", e.String(), e.String(), true, true)
	}
	f.Add(prefix+"p", "q", "1/2", "", "", false, false)
	f.Add(prefix+"p.q", "p.q", "", "1 train", "\x00", false, true)
	f.Add("", "", "", "", "", true, true)
	signed := func(text string, sign bool) string {
		e, err := ParseIndex(text)
		if err != nil || !sign {
			return text
		}
		e.Token = LeaseToken(key, e.Kind, e.Group, e.Slot, e.Attempt)
		return e.String()
	}
	f.Fuzz(func(t *testing.T, subject, producer, part, a, b string, signA, signB bool) {
		hdr := nats.Header{HeaderIndex: {signed(a, signA), signed(b, signB)}, HeaderProducer: {producer}}
		if part != "" {
			hdr[HeaderPart] = []string{part}
		}
		out := NewGate("r", key).Admit(subject, hdr)
		if out.Err != nil {
			if !errors.Is(out.Err, ErrForged) && !errors.Is(out.Err, ErrIndex) {
				t.Fatalf("refused without a type: %v", out.Err)
			}
			if len(out.Arrivals) != 0 || out.Refused != 2 {
				t.Fatalf("refused, and %d count; %d refused", len(out.Arrivals), out.Refused)
			}
			return
		}
		if subject != prefix+out.Producer || producer != out.Producer || part != "" || len(out.Arrivals) != 2 {
			t.Fatalf("let pass %q by %q, part %q: %+v", subject, producer, part, out)
		}
		for _, x := range out.Arrivals {
			if e := &x.Entry; x.Err == nil && e.Token != LeaseToken(key, e.Kind, e.Group, e.Slot, e.Attempt) {
				t.Fatalf("let pass %s with token %q", e.ID(), e.Token)
			}
			if x.Err != nil && !errors.Is(x.Err, ErrIndex) {
				t.Fatalf("entry refused without a type: %v", x.Err)
			}
		}
	})
}
