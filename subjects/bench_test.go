package subjects

import (
	"bytes"
	"fmt"
	"testing"
)

// episode has n tokens: a prompt, then four actions with an observation after each.
func episode(n int) *Trajectory {
	t := plain()
	s := Segment{Parent: -1, Tokens: make([]int32, n)}
	for i := range s.Tokens {
		s.Tokens[i] = int32(i * 7919 % 30000)
	}
	t.Turns = nil
	for k := range 4 {
		start, end := int32(n*(2*k+1)/9), int32(n*(2*k+2)/9)
		s.Versions = append(s.Versions, VersionSpan{start, end, 11})
		s.LossMask = append(s.LossMask, Span{start, end})
		for range end - start {
			s.Logprobs = append(s.Logprobs, -0.75)
		}
		t.Turns = append(t.Turns, Turn{Prompt: Span{int32(n * 2 * k / 9), start}, Completion: Span{start, end}, Finish: "stop"})
	}
	t.Segments = []Segment{s}
	return t
}

func benchmark(b *testing.B, run func(t *Trajectory, body []byte) error) {
	for _, n := range []int{512, 2048, 32768} {
		b.Run(fmt.Sprint("tokens=", n), func(b *testing.B) {
			t := episode(n)
			body := encoded(b, t)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := run(t, body); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/token")
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	var buf bytes.Buffer
	benchmark(b, func(t *Trajectory, _ []byte) error {
		buf.Reset()
		return EncodeTrajectory(&buf, t)
	})
}

func BenchmarkView(b *testing.B) {
	benchmark(b, func(_ *Trajectory, body []byte) error { _, err := ViewBody(body); return err })
}

func BenchmarkViewAndCheck(b *testing.B) {
	benchmark(b, func(_ *Trajectory, body []byte) error {
		v, err := ViewBody(body)
		if err != nil {
			return err
		}
		return v.Check(32000)
	})
}

func BenchmarkDecode(b *testing.B) {
	benchmark(b, func(_ *Trajectory, body []byte) error { _, err := DecodeTrajectory(body); return err })
}

func BenchmarkChecksum(b *testing.B) {
	benchmark(b, func(_ *Trajectory, body []byte) error { Checksum(body); return nil })
}

func BenchmarkIndex(b *testing.B) {
	t := plain()
	e := t.Index()
	s := e.String()
	buf := make([]byte, 0, 256)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = e.Append(buf[:0])
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseIndex(s); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkLedgerEntry(b *testing.B) {
	e := entry()
	e.Batches[0].Groups = nil
	for range 16 {
		g := BatchGroup{Group: "t3", Environment: "frozenlake"}
		for i := range Slot(8) {
			g.Members = append(g.Members, member(i))
		}
		e.Batches[0].Groups = append(e.Batches[0].Groups, g)
	}
	m, err := EncodeMessage(e)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(m)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := EncodeMessage(e); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(m)))
		b.ReportAllocs()
		for b.Loop() {
			if err := DecodeMessage(m, &Entry{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestEncode_TakesNoMemoryBeyondTheBuffer(t *testing.T) {
	tr := episode(2048)
	var buf bytes.Buffer
	buf.Grow(1 << 20)
	if n := testing.AllocsPerRun(100, func() {
		buf.Reset()
		if err := EncodeTrajectory(&buf, tr); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
