package service_test

import (
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/subjects"
)

func TestService_RecordsHowLongPublishingTakes(t *testing.T) {
	s := open(t)
	s.engine("e1")
	s.tasks(0, 5)
	s.start(s.config("p1"))
	s.awaitDone(5)
	var spans []subjects.TimeSpan
	var batch subjects.SpanBatch
	sglangtest.Eventually(t, "spans", func() bool {
		m, err := bus.Last(t.Context(), s.conn, run.StreamName(subjects.Telemetry), run.SpanSubject("produce", "p1"))
		if err != nil || subjects.DecodeMessage(m.Data, &batch) != nil {
			return false
		}
		spans, err = batch.Spans()
		return err == nil
	})
	names := map[string]int{}
	for _, x := range spans {
		names[x.Name]++
		if x.Name == "publish" && x.Flow == 0 || x.Lane < 0 || x.Lane >= 8 {
			t.Errorf("%+v", x)
		}
	}
	if names["publish"] == 0 || names["acknowledge"] == 0 || batch.Dropped != 0 {
		t.Errorf("%v, %d dropped", names, batch.Dropped)
	}
	if batch.Uncertainty <= 0 {
		t.Errorf("the clock was not measured: %+v", batch)
	}
}
