package layout

import (
	"fmt"
	"testing"

	"github.com/headrace/headrace/subjects"
)

// chat is a segment of n tokens: six turns, half of it sampled.
func chat(n, row int) subjects.Segment {
	s := subjects.Segment{Parent: -1, Tokens: make([]int32, n)}
	for i := range n {
		s.Tokens[i] = int32(row + i)
	}
	for at := n / 12; at+n/12 <= n; at += n / 6 {
		end := int32(at + n/12)
		s.Versions = append(s.Versions, subjects.VersionSpan{Start: int32(at), End: end, Version: 3})
		s.LossMask = append(s.LossMask, subjects.Span{Start: int32(at), End: end})
		s.Logprobs = append(s.Logprobs, make([]float32, n/12)...)
	}
	return s
}

// BenchmarkFill places 64 rows; MB/s counts the bytes written to the slot.
func BenchmarkFill(b *testing.B) {
	for _, kind := range kinds {
		for _, n := range []int{512, 2048} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				cfg := Config{Layout: kind, Buckets: []int{n}, RowTokens: 2 * n, PromptTokens: n / 8, Rows: 8}
				w, err := NewWriter(cfg)
				if err != nil {
					b.Fatal(err)
				}
				var rows []Row
				for i := range 64 {
					v := views(b, chat(n-i%16, i))
					rows = append(rows, Row{Segment: &v[0], Tokens: v[0].Len(), Advantage: 1})
				}
				slot := make([]byte, cfg.SlotBytes())
				var f Filled
				b.ReportAllocs()
				for b.Loop() {
					if f, err = w.Fill(slot, rows, Part{}); err != nil {
						b.Fatal(err)
					}
				}
				b.SetBytes(int64(f.Bytes))
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(f.Tokens), "ns/token")
			})
		}
	}
}

// TestFill_AllocatesPerBatchNotPerRow compares a batch with one 16 times as large.
func TestFill_AllocatesPerBatchNotPerRow(t *testing.T) {
	for _, kind := range kinds {
		cfg := Config{Layout: kind, Buckets: []int{64}, RowTokens: 128, PromptTokens: 64, Rows: 8}
		w, err := NewWriter(cfg)
		if err != nil {
			t.Fatal(err)
		}
		v := views(t, chat(60, 0))
		rows := make([]Row, 512)
		for i := range rows {
			rows[i] = Row{Segment: &v[0], Tokens: 60}
		}
		slot := make([]byte, cfg.SlotBytes())
		allocs := func(n int) float64 {
			return testing.AllocsPerRun(20, func() {
				if _, err := w.Fill(slot, rows[:n], Part{}); err != nil {
					t.Fatal(err)
				}
			})
		}
		large := allocs(512)
		if small := allocs(32); large > small {
			t.Errorf("%s: %v allocations for 512 rows, %v for 32", kind, large, small)
		}
	}
}
