package grouper

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/headrace/headrace/subjects"
)

// benchHeaders are the index entries of whole groups of 8, interleaved as 64
// groups in flight would be, for trajectories of a length.
func benchHeaders(groups, tokens int) []string {
	var out []string
	for base := 0; base < groups; base += 64 {
		for slot := range 8 {
			for g := base; g < min(base+64, groups); g++ {
				e := subjects.IndexEntry{Kind: subjects.Train, Group: subjects.TrainGroup(uint64(g)), Slot: subjects.Slot(slot), Status: subjects.Succeeded,
					Reward: float64((g+slot)%3) / 2, Segments: 1, Tokens: tokens, Longest: tokens, Trainable: tokens / 2, MinVersion: 1 << 30, MaxVersion: 1 << 30,
					Environment: "frozenlake", Offset: slot * tokens * 9, Length: tokens * 9, Checksum: 0xdeadbeef}
				out = append(out, e.String())
			}
		}
	}
	return out
}

// BenchmarkCore folds headers, one trajectory an operation, as the service
// does: parsed from text, bundles of 8, a decision every 32 bundles, encoded.
func BenchmarkCore(b *testing.B) {
	for _, tokens := range []int{128, 2048, 131072} {
		b.Run(fmt.Sprint("tokens=", tokens), func(b *testing.B) {
			stateEvery = defaultStateEvery
			headers := benchHeaders(b.N/8+64, tokens)
			c, err := New(Config{GroupSize: 8, GroupsPerBatch: 64, MaxStaleness: new(1)}, Supply{Train: []uint64{0}})
			if err != nil {
				b.Fatal(err)
			}
			ledger := uint64(0)
			decide := func() {
				for e := c.Decide(1); e != nil; e = c.Decide(1) {
					if _, err := subjects.EncodeMessage(e); err != nil {
						b.Fatal(err)
					}
					ledger++
					c.Appended(e, ledger)
				}
			}
			decide()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				seq := uint64(i/8 + 1)
				e, err := subjects.ParseIndex(headers[i])
				if err != nil {
					b.Fatal(err)
				}
				c.Rollout(subjects.Address{Seq: seq, Index: i % 8}, 1, &e)
				if i%256 == 255 {
					c.Folded(seq)
					c.Inspected(seq)
					decide()
					for c.trainer.committed < c.lastStep {
						c.Commit(1, 1, &subjects.CommitEvent{Step: c.trainer.committed + 1})
					}
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "trajectories/s")
			if b.N > 4096 && c.stats.Trained < uint64(b.N/2) {
				b.Fatalf("trained %d of %d: %v", c.stats.Trained, b.N, c.stats.Dropped)
			}
		})
	}
}

// openGroupBytes is the heap of one open group of 8 that all but one of its
// trajectories have come for.
func openGroupBytes(t testing.TB) float64 {
	const groups = 20000
	headers := benchHeaders(groups, 2048)
	before := heap()
	c, err := New(Config{GroupSize: 8, GroupsPerBatch: groups, MaxStaleness: new(0)}, Supply{Train: []uint64{0}})
	if err != nil {
		t.Fatal(err)
	}
	if e := c.Decide(1); e == nil || len(c.open) != groups {
		t.Fatal("groups not opened")
	}
	for i, h := range headers {
		if e, err := subjects.ParseIndex(strings.Clone(h)); err == nil && e.Slot < 7 { // a clone that is kept would count
			c.Rollout(subjects.Address{Seq: uint64(i/8 + 1), Index: i % 8}, 1, &e)
		}
	}
	bytes := float64(heap()-before) / groups
	runtime.KeepAlive(c)
	runtime.KeepAlive(headers)
	return bytes
}

func BenchmarkOpenGroup(b *testing.B) {
	bytes := openGroupBytes(b)
	for b.Loop() {
	}
	b.ReportMetric(bytes, "bytes/open-group")
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestCore_OpenGroupFitsFourKilobytes(t *testing.T) {
	if n := openGroupBytes(t); n <= 0 || n > 4096 {
		t.Errorf("an open group of 8 takes %.0f bytes; want at most 4096", n)
	}
}
