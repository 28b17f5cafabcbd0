package trainerbridge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
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
