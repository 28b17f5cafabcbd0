package trainerbridge

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// BenchmarkInspector compares what a trajectory costs the inspector that counts
// with one that does not: bundles of 8, of 2048 tokens each.
func BenchmarkInspector(b *testing.B) {
	w := newWorld(b)
	key, err := bus.LeaseKey(w.ctx(), w.conn, testRun)
	w.must(err)
	message := func(spoil func(e *subjects.IndexEntry)) *bus.Msg {
		m := &bus.Msg{Seq: 1, Subject: testRun.RolloutSubject("p"), Header: nats.Header{subjects.HeaderProducer: {"p"}, subjects.HeaderCounter: {"1"}}}
		for slot := range 8 {
			var buf bytes.Buffer
			t := episode(0, slot, 2048)
			t.Token = subjects.LeaseToken(key, t.Kind, t.Group, t.Slot, t.Attempt)
			w.must(subjects.EncodeTrajectory(&buf, t))
			e := t.Index()
			e.Offset, e.Length, e.Checksum = len(m.Data), buf.Len(), subjects.Checksum(buf.Bytes())
			spoil(&e)
			m.Header[subjects.HeaderIndex] = append(m.Header[subjects.HeaderIndex], e.String())
			m.Data = append(m.Data, buf.Bytes()...)
		}
		return m
	}
	in := &inspector{conn: w.conn, run: testRun, vocab: testVocab, bodies: newBodies(1 << 20), stats: &stats{}, log: zerolog.Nop(), garbage: map[string]uint64{},
		fetch: bus.NewFetcher(w.conn, testRun.StreamName(subjects.Rollouts), bus.FetchConfig{}), gate: subjects.NewGate(testRun, key), moved: make(chan struct{}, 1),
		fits: func([]subjects.SegmentView) error { return nil }, onEvent: func(Event) {}}
	for _, c := range []struct {
		name  string
		seen  bool
		spoil func(e *subjects.IndexEntry)
	}{
		{"good", false, func(*subjects.IndexEntry) {}},
		{"copy", true, func(*subjects.IndexEntry) {}},
		{"forged", false, func(e *subjects.IndexEntry) { e.Token = "AAAAAAAAAAAAAAAA" }},
	} {
		m, ctx := message(c.spoil), b.Context()
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !c.seen {
					in.seen = seen{}
				}
				if err := in.message(ctx, m); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8, "ns/trajectory")
		})
	}
}
