package trainerbridge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

// BenchmarkPaced measures from the publish of a batch's last trajectories to
// its arrays in the trainer: 8 groups of 8 trajectories of 512 tokens, the last of
// them published as one bundle, through inspection, ledger and bridge.
func BenchmarkPaced(b *testing.B) {
	w := newWorld(b)
	s := w.serve(func(c *Config) { c.Layout.Buckets, c.Layout.MaxRows = []int{512}, 64 })
	c := s.dial(0)
	sub, err := w.conn.NC().SubscribeSync(testRun.InspectedSubject())
	w.must(err)
	bundle := func(n int) subjects.BatchGroup {
		var parts []*part
		for slot := range 8 {
			parts = append(parts, w.part(episode(n, slot, 512)))
		}
		return subjects.BatchGroup{Group: subjects.TrainGroup(uint64(n)), Members: w.send(parts...)}
	}
	var took []time.Duration
	step := subjects.Step(0)
	for b.Loop() {
		step++
		groups := make([]subjects.BatchGroup, 8)
		for g := range 7 {
			groups[g] = bundle(g)
		}
		begun := time.Now()
		groups[7] = bundle(7)
		for seq := ""; seq != fmt.Sprint(groups[7].Members[0].Seq); {
			m, err := sub.NextMsgWithContext(b.Context())
			w.must(err)
			seq = string(m.Data)
		}
		w.entry(subjects.Entry{Batches: []subjects.Batch{batchOf(step, groups...)}})
		batch, _, err := c.Next()
		w.must(err)
		took = append(took, time.Since(begun))
		w.must(c.Release(batch))
		w.must(c.Commit(feed.Commit{Step: batch.Step}))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, "ms-p99")
}

// inMemory makes the manifest of a batch of 64 trajectories of n tokens, whose
// bundles are in the cache, and its builder.
func inMemory(tb testing.TB, n int) (*manifest, *builder) {
	w := &world{TB: tb}
	cache := newBodies(1 << 30)
	m := &manifest{Batch: subjects.Batch{Step: 1}}
	for g := range 8 {
		hdr := nats.Header{subjects.HeaderProducer: {"p"}, subjects.HeaderCounter: {"1"}}
		group := subjects.BatchGroup{Group: subjects.TrainGroup(uint64(g))}
		var body []byte
		for slot := range 8 {
			p := w.part(episode(g, slot, n-slot))
			p.entry.Offset, p.entry.Length, p.entry.Checksum = len(body), len(p.body), subjects.Checksum(p.body)
			hdr[subjects.HeaderIndex] = append(hdr[subjects.HeaderIndex], p.entry.String())
			body = append(body, p.body...)
			group.Members = append(group.Members, member(p.entry, subjects.Address{Seq: uint64(g + 1), Index: slot}))
		}
		opened, err := bus.OpenBundle(uint64(g+1), hdr, body)
		w.must(err)
		cache.put(newBundle(opened))
		m.Groups = append(m.Groups, group)
	}
	writer, err := layout.NewWriter(layout.Config{Buckets: []int{n}, Rows: 8, MaxRows: 64})
	w.must(err)
	return m, &builder{writer: writer, vocab: testVocab, bodies: cache, stats: &stats{}, loaded: map[uint64]*bundle{}}
}

// BenchmarkBuild lays out a batch of 64 trajectories whose bodies are in memory,
// digest included.
func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{512, 2048} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, build := inMemory(b, n)
			slot := make([]byte, build.writer.Config().SlotBytes())
			var size, tokens int
			b.ReportAllocs()
			for b.Loop() {
				out, err := build.build(b.Context(), m, slot)
				if err != nil {
					b.Fatal(err)
				}
				size, tokens = out.Bytes, out.Tokens
			}
			b.SetBytes(int64(size))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tokens), "ns/token")
		})
	}
}

// BenchmarkInspect validates a bundle of 8 trajectories; MB/s counts its bytes.
func BenchmarkInspect(b *testing.B) {
	for _, n := range []int{512, 2048} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m, build := inMemory(b, n)
			held := build.bodies.get(m.Groups[0].Members[0].Seq)
			b.SetBytes(int64(len(held.Data)))
			b.ReportAllocs()
			for b.Loop() {
				opened, err := bus.OpenBundle(held.Seq, held.Header, held.Data)
				if err != nil {
					b.Fatal(err)
				}
				fresh := newBundle(opened)
				for i := range fresh.Items {
					if _, err := fresh.view(i, testVocab); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(8*n), "ns/token")
		})
	}
}
