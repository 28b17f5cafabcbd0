package trace

import (
	"time"

	"github.com/headrace/headrace/subjects"
)

// Sample tells of the times in which producers played more episodes than they
// could record: some, drawn by lot, have spans of their own (`queue`, `parse`,
// `publish`, and what lies between episodes), the others are drawn from the log
// alone.
type Sample struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Recorded and LeftOut are the episodes that began in these times.
	Recorded int `json:"recorded"`
	LeftOut  int `json:"left_out"`
}

// sampleSpan is the span of such a time, in a producer's report.
const sampleSpan = "sample"

// sampled adds a time in which a producer left episodes out.
func (r *reader) sampled(x *subjects.TimeSpan, from, to int64) {
	recorded, _ := argOf(x, "recorded")
	leftOut, _ := argOf(x, "left_out")
	if leftOut < 1 || leftOut > mostSampled || recorded < 0 || recorded > mostSampled {
		return
	}
	s := r.report.Sample
	if s == nil {
		s = &Sample{From: time.Unix(0, from).UTC(), To: time.Unix(0, to).UTC()}
		r.report.Sample = s
	}
	if at := time.Unix(0, from).UTC(); at.Before(s.From) {
		s.From = at
	}
	if at := time.Unix(0, to).UTC(); at.After(s.To) {
		s.To = at
	}
	s.Recorded, s.LeftOut = s.Recorded+int(recorded), s.LeftOut+int(leftOut)
}

// mostSampled is more episodes than a producer plays in a second.
const mostSampled = 1e9
