package trace

import (
	"math"
	"testing"
	"time"

	"github.com/headrace/headrace/subjects"
)

// TestWrite_TellsOfEpisodesWhoseSpansWereLeftOut by two producers, in the window;
// what nobody can have counted is not believed.
func TestWrite_TellsOfEpisodesWhoseSpansWereLeftOut(t *testing.T) {
	w := newWorld(t).story()
	sample := func(producer string, from, recorded, leftOut float64) {
		b := &subjects.SpanBatch{V: 1, Role: roleProducer, Instance: producer, At: t0 + 6*sec}
		b.SetSpans([]subjects.TimeSpan{{Name: sampleSpan, Start: t0 + int64(from)*sec, Duration: sec,
			Args: []subjects.TimeSpanArg{{Key: "recorded", Value: recorded}, {Key: "left_out", Value: leftOut}}}})
		w.send(run.SpanSubject(roleProducer, producer), "", b)
	}
	sample("p1", 2, 100, 1500)
	sample("p2", 1, 50, 750)
	sample("p2", 3, 25, math.Inf(1))
	sample("p1", 900, 1, 1) // after the window
	r := &reader{conn: w.conn, run: run, o: Options{First: 1, Final: 2}, report: &Report{}, d: newDrawing()}
	w.must(r.all(t.Context()))
	want := Sample{From: time.Unix(0, t0+sec).UTC(), To: time.Unix(0, t0+3*sec).UTC(), Recorded: 150, LeftOut: 2250}
	if s := r.report.Sample; s == nil || *s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if row := r.d.process(source{roleProducer, "p1"}).rows["sampled"]; row == nil || len(row.blocks) != 1 || len(row.blocks[0].args) != 2 {
		t.Errorf("%+v", row)
	}
}
