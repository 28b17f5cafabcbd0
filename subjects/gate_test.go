package subjects

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

var gateKey = []byte("0123456789abcdef0123456789abcdef")

// leasedEntry is the index entry of plain(), with the token of its lease.
func leasedEntry() IndexEntry {
	t := plain()
	t.Token = LeaseToken(gateKey, t.Kind, t.Group, t.Slot, t.Attempt)
	e := t.Index()
	e.Length, e.Checksum = 619, 0x519be5a4
	return e
}

func TestGolden_LeasedEntryKeepsItsText(t *testing.T) {
	e := leasedEntry()
	golden(t, "leased.entry", []byte(e.String()+"\n"))
	if got, err := ParseIndex(strings.TrimSpace(string(vector(t, "leased.entry")))); err != nil || got != e {
		t.Errorf("read as %+v, %v", got, err)
	}
}

func TestLeaseToken_IsOfOneTaskAlone(t *testing.T) {
	e := leasedEntry()
	signer := NewLeaseSigner(gateKey)
	if !signer.Valid(&e) {
		t.Fatal("its own token is refused")
	}
	for name, change := range map[string]func(*IndexEntry){
		"kind":      func(e *IndexEntry) { e.Kind = Eval },
		"group":     func(e *IndexEntry) { e.Group = "t18" },
		"slot":      func(e *IndexEntry) { e.Slot++ },
		"attempt":   func(e *IndexEntry) { e.Attempt++ },
		"no token":  func(e *IndexEntry) { e.Token = "" },
		"cut":       func(e *IndexEntry) { e.Token = e.Token[:15] },
		"one bit":   func(e *IndexEntry) { e.Token = string(e.Token[0]^1) + e.Token[1:] },
		"of no key": func(e *IndexEntry) { e.Token = LeaseToken(nil, e.Kind, e.Group, e.Slot, e.Attempt) },
	} {
		forged := e
		if change(&forged); signer.Valid(&forged) {
			t.Errorf("%s: a token is good for what it is not of", name)
		}
	}
}

// message is an honest message of p, with entries.
func gateMessage(entries ...string) (string, nats.Header) {
	return Run("r").RolloutSubject("p"), nats.Header{HeaderProducer: {"p"}, HeaderIndex: entries}
}

func TestGate_RefusesWholeMessagesThatNoHonestProducerWrites(t *testing.T) {
	e := leasedEntry()
	good, stranger := e.String(), e
	stranger.Slot = 4
	for name, c := range map[string]struct {
		spoil   func(subject *string, h nats.Header)
		refused int
	}{
		"another's subject":   {func(s *string, _ nats.Header) { *s = Run("r").RolloutSubject("q") }, 1},
		"another run":         {func(s *string, _ nats.Header) { *s = Run("other").RolloutSubject("p") }, 1},
		"a longer subject":    {func(s *string, _ nats.Header) { *s += ".x" }, 1},
		"no producer":         {func(_ *string, h nats.Header) { delete(h, HeaderProducer) }, 1},
		"two producers":       {func(_ *string, h nats.Header) { h[HeaderProducer] = []string{"p", "q"} }, 1},
		"a part with index":   {func(_ *string, h nats.Header) { h[HeaderPart] = []string{"1/2"} }, 1},
		"another's slot":      {func(_ *string, h nats.Header) { h[HeaderIndex] = []string{good, stranger.String()} }, 2},
		"more than one bears": {func(_ *string, h nats.Header) { h[HeaderIndex] = slices.Repeat([]string{good}, MaxBundle+1) }, MaxBundle + 1},
	} {
		subject, h := gateMessage(good)
		c.spoil(&subject, h)
		a := NewGate("r", gateKey).Admit(subject, h)
		if !errors.Is(a.Err, ErrForged) || len(a.Arrivals) != 0 || a.Refused != c.refused {
			t.Errorf("%s: %d arrivals, %d refused, %v", name, len(a.Arrivals), a.Refused, a.Err)
		}
	}
}

func TestGate_AdmitsWhatIsLeasedAndPassesOverWhatCannotBeRead(t *testing.T) {
	e := leasedEntry()
	subject, h := gateMessage("1 train t0 one 0", e.String())
	a := NewGate("r", gateKey).Admit(subject, h)
	if a.Err != nil || a.Producer != "p" || len(a.Arrivals) != 2 || !errors.Is(a.Arrivals[0].Err, ErrIndex) || a.Arrivals[1].Entry != e {
		t.Errorf("%+v", a)
	}
	e.Token = ""
	subject, h = gateMessage(e.String())
	if a := NewGate("r", nil).Admit(subject, h); a.Err != nil || len(a.Arrivals) != 1 {
		t.Errorf("without a key, an entry without a token: %+v", a)
	}
	if a := NewGate("r", nil).Admit(subject, nats.Header{HeaderPart: {"1/2"}}); a.Err != nil || len(a.Arrivals) != 0 {
		t.Errorf("an early part: %+v", a)
	}
	if a := NewGate("r", nil).Admit(subject, nil); !errors.Is(a.Err, ErrIndex) || a.Refused != 0 {
		t.Errorf("a message without headers: %+v", a)
	}
}

func BenchmarkGate(b *testing.B) {
	e := leasedEntry()
	forged := e
	forged.Token = "AAAAAAAAAAAAAAAA"
	gate := NewGate("r", gateKey)
	for name, entries := range map[string][]string{
		"good": slices.Repeat([]string{e.String()}, 8), "forged": slices.Repeat([]string{forged.String()}, 8),
		"garbage": slices.Repeat([]string{strings.Repeat("x", 100)}, 8),
	} {
		subject, h := gateMessage(entries...)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				gate.Admit(subject, h)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8, "ns/trajectory")
		})
	}
	signer := NewLeaseSigner(gateKey)
	b.Run("token", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !signer.Valid(&e) {
				b.Fatal(fmt.Sprint(e))
			}
		}
	})
}
