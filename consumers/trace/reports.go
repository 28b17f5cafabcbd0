package trace

import (
	"context"
	"strings"

	"github.com/headrace/headrace/consumers/perfetto"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// telemetry draws gauges as counters, stalls, and the spans that roles report;
// with them comes how far each process's clock is from the server's.
func (r *reader) telemetry(ctx context.Context) error {
	stalls := map[stallKey]block{}
	err := r.each(ctx, subjects.Telemetry, func(m *bus.Msg) {
		role, instance, spans := r.reporter(m.Subject)
		switch {
		case spans:
			r.spans(m)
		case role == subjects.WatchdogRole:
			r.stall(m, instance, stalls)
		case role != "":
			r.gauges(m, source{role, instance})
		}
	})
	for k, b := range stalls {
		r.d.add(source{subjects.WatchdogRole, k.writer}, rowEvents, "stalls", b)
	}
	return err
}

// reporter reads a subject of TELEMETRY.
func (r *reader) reporter(subject string) (role, instance string, spans bool) {
	prefix, _ := strings.CutSuffix(r.run.Filter(subjects.Telemetry), ">")
	rest, _ := strings.CutPrefix(subject, prefix)
	role, instance, _ = strings.Cut(rest, ".")
	return role, instance, subjects.IsSpans(subject)
}

func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

func (r *reader) gauges(m *bus.Msg, s source) {
	var g subjects.Gauges
	if subjects.DecodeMessage(m.Data, &g) != nil {
		return
	}
	at := g.At + r.clocks[s]
	if !r.sees(at, at) {
		return
	}
	p := r.d.process(s)
	for name, v := range g.Values {
		r.report.Samples++
		p.counters[name] = append(p.counters[name], sample{at, v})
	}
}

func (r *reader) spans(m *bus.Msg) {
	var b subjects.SpanBatch
	if subjects.DecodeMessage(m.Data, &b) != nil {
		return
	}
	spans, err := b.Spans()
	if err != nil {
		return
	}
	s := source{b.Role, b.Instance}
	r.clocks[s] = b.Offset
	for i := range spans {
		x := &spans[i]
		start := x.Start + b.Offset
		if !r.sees(start, start+x.Duration) {
			continue
		}
		r.report.Spans++
		d := block{start: start, end: start + x.Duration, name: x.Name, category: b.Role, lane: x.Lane + 1}
		if x.Flow != 0 {
			d.flows = []uint64{x.Flow}
		}
		for _, a := range x.Args {
			d.args = append(d.args, perfetto.Float(a.Key, a.Value))
		}
		r.d.add(s, rowSpans, "spans", d)
	}
}
