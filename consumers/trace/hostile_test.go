package trace

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// TestWrite_GarbageIsPassedOver wants the story's trace whatever else somebody
// wrote into the run's streams.
func TestWrite_GarbageIsPassedOver(t *testing.T) {
	draw := func(w *world) Report {
		r, err := Write(t.Context(), w.conn, run, Options{First: 1, Final: 2}, io.Discard)
		w.must(err)
		r.Read, r.Unread, r.Packets, r.Bytes = 0, 0, 0, 0 // what was looked at, and a clock that a stranger told
		return *r
	}
	want := draw(newWorld(t).story())
	w := newWorld(t)
	garbage := [][]byte{nil, {0xc1}, []byte("{}"), {0x81, 0xa2, 'a', 't', 0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, bytes.Repeat([]byte{0xdd}, 4096)}
	spans := &subjects.SpanBatch{V: 1, Role: "trainer", Instance: "rank0", At: t0, Names: []string{"a"}, Name: []int32{7}, Lane: []int32{-1}, Start: []int64{math.MinInt64}, Duration: []int64{-1}}
	far := &subjects.SpanBatch{V: 1, Role: "produce", Instance: "p2", At: t0, Offset: math.MaxInt64}
	far.SetSpans([]subjects.TimeSpan{{Name: "publish", Start: t0, Duration: 5, Flow: 1}})
	ages := &subjects.SpanBatch{V: 1, Role: "produce", Instance: "p2", At: t0}
	ages.SetSpans([]subjects.TimeSpan{{Name: "publish", Start: 0, Duration: math.MaxInt64, Flow: 1}})
	for _, x := range []*subjects.SpanBatch{spans, far, ages} {
		data, err := subjects.EncodeMessage(x)
		w.must(err)
		garbage = append(garbage, data)
	}
	for i, data := range garbage {
		for j, subject := range []string{run.SpanSubject("produce", "p2"), run.SpanSubject("trainer", "rank0"), run.TelemetrySubject("produce", "p2"),
			run.TelemetrySubject(subjects.WatchdogRole, "g1"), run.LedgerSubject(), run.WeightsSubject(subjects.EventCommit), run.WeightsSubject(subjects.EventVersion),
			run.AckSubject("eng-0"), run.RolloutSubject("p2")} {
			_, err := bus.Send(t.Context(), w.conn, subject, fmt.Sprint("x", i, "-", j), nil, data)
			w.must(err)
		}
	}
	if got := draw(w.story()); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
