package trainerbridge

import (
	"testing"

	"github.com/headrace/headrace/subjects"
)

func TestBridge_RecordsHowABatchIsBuiltAndWaitedFor(t *testing.T) {
	w := newWorld(t)
	s := w.serve(nil)
	g := w.group(1, 4)
	w.entry(subjects.Entry{Batches: []subjects.Batch{batchOf(1, g)}})
	c := s.dial(0)
	train(t, c, 1)
	w.must(c.Close("done"))
	w.must(s.end())
	w.must(w.conn.NC().Flush())
	seen := map[string]float64{}
	for _, m := range w.stored(subjects.Telemetry) {
		if !subjects.IsSpans(m.Subject) {
			continue
		}
		var b subjects.SpanBatch
		w.must(subjects.DecodeMessage(m.Data, &b))
		spans, err := b.Spans()
		w.must(err)
		for _, x := range spans {
			for _, a := range x.Args {
				seen[x.Name+" "+a.Key] = a.Value
			}
		}
	}
	for _, name := range []string{"build batch step", "load bodies step", "trainer waits step"} {
		if seen[name] != 1 {
			t.Errorf("no span of %s 1: %v", name, seen)
		}
	}
}
