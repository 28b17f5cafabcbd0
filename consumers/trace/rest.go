package trace

import (
	"fmt"
	"time"
)

// rest draws the spans that found nothing they belong to, and says of each
// process how well its clock is known.
func (r *reader) rest() {
	r.report.WaitSeconds, r.report.TrainSeconds = float64(r.waited)/1e9, float64(r.trained)/1e9
	for k, spans := range r.told.episodes {
		for _, x := range spans {
			b := x.block()
			b.lane = x.lane
			r.loose(k.source, k.flow, b)
		}
	}
	for k, blocks := range r.told.syncs {
		for _, b := range blocks {
			r.loose(source{roleEngine, k.engine}, 0, b)
		}
	}
	for s, c := range r.clocks {
		p := r.d.process(s)
		p.about = fmt.Sprintf("times moved by %v to the server's clock, known to ±%v", time.Duration(c.ahead), time.Duration(c.uncertain))
		if p.dropped > 0 {
			p.about += fmt.Sprintf("; %d spans found no room since it started", p.dropped)
		}
		r.report.Dropped += p.dropped
		r.report.Skew = max(r.report.Skew, float64(c.uncertain)/1e9)
	}
}
