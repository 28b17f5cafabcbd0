package trace

import (
	"context"
	"strings"

	"github.com/headrace/headrace/consumers/perfetto"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// telemetry draws gauges as counters and stalls, and reads the spans that roles
// report; with them comes how far each process's clock is from the server's.
func (r *reader) telemetry(ctx context.Context) error {
	of, err := r.around(ctx, subjects.Telemetry)
	if err != nil {
		return err
	}
	stalls := map[stallKey]block{}
	err = r.each(ctx, subjects.Telemetry, of, func(m *bus.Msg) {
		s, spans := r.reporter(m.Subject)
		switch {
		case spans:
			r.spans(m, s)
		case s.role == subjects.WatchdogRole:
			r.stall(m, s.instance, stalls)
		case s.role != "":
			r.gauges(m, s)
		}
	})
	for k, b := range stalls {
		r.d.add(source{subjects.WatchdogRole, k.writer}, rowEvents, "stalls", b)
	}
	return err
}

// reporter reads a subject of TELEMETRY, which the server guards: who it is from.
func (r *reader) reporter(subject string) (s source, spans bool) {
	prefix, _ := strings.CutSuffix(r.run.Filter(subjects.Telemetry), ">")
	path := strings.Split(strings.TrimPrefix(subject, prefix), ".")
	if len(path) < 2 {
		return source{}, false
	}
	return source{path[0], path[1]}, subjects.IsSpans(subject)
}

func lastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

func (r *reader) gauges(m *bus.Msg, s source) {
	var g subjects.Gauges
	if subjects.DecodeMessage(m.Data, &g) != nil {
		return
	}
	at := g.At + r.clocks[s].ahead
	if !r.sees(at, at) {
		return
	}
	p := r.d.process(s)
	for name, v := range g.Values {
		r.report.Samples++
		p.counters[name] = append(p.counters[name], sample{at, v})
	}
}

// farthest is how far apart clocks are believed to be: a year.
const farthest = int64(365 * 24 * 3600e9)

func (r *reader) spans(m *bus.Msg, s source) {
	var b subjects.SpanBatch
	if subjects.DecodeMessage(m.Data, &b) != nil || b.Offset > farthest || b.Offset < -farthest {
		return
	}
	spans, err := b.Spans()
	if err != nil {
		return
	}
	p := r.d.process(s)
	p.dropped = max(p.dropped, b.Dropped)
	r.clocks[s] = clock{b.Offset, b.Uncertainty}
	for i := range spans {
		x := &spans[i]
		start := x.Start + b.Offset
		if !r.sees(start, start+x.Duration) {
			continue
		}
		r.report.Spans++
		if s.role == roleProducer && x.Name == sampleSpan {
			r.sampled(x, start, start+x.Duration)
		}
		r.place(s, x, spanBlock(s, x, start))
	}
}

// spanBlock draws a span; what it is of is its argument where it is a number.
func spanBlock(s source, x *subjects.TimeSpan, start int64) block {
	d := block{start: start, end: start + x.Duration, name: x.Name, category: s.role, lane: x.Lane + 1}
	for _, a := range x.Args {
		if n := int64(a.Value); float64(n) == a.Value {
			d.args = append(d.args, perfetto.Int(a.Key, n))
		} else {
			d.args = append(d.args, perfetto.Float(a.Key, a.Value))
		}
	}
	return d
}

// told are spans that belong to something that is drawn from the log, and wait
// for it: a producer's to its episode, the trainer's to its commit, an engine's
// to its answer.
type told struct {
	episodes map[flowOf][]toldSpan
	trainers map[source][]block
	syncs    map[syncOf][]block
}

// toldSpan is what a producer told of an episode: many, so little of each.
type toldSpan struct {
	start, end int64
	name       string
	lane       int32
}

func (x *toldSpan) block() block {
	return block{start: x.start, end: x.end, name: x.name, category: roleProducer}
}

type flowOf struct {
	source
	flow uint64
}

type syncOf struct {
	engine  string
	version int64
}

func newTold() told {
	return told{map[flowOf][]toldSpan{}, map[source][]block{}, map[syncOf][]block{}}
}

// mostTold bounds what is told of one episode.
const mostTold = 4096

// place draws a span, or keeps it for what it belongs to.
func (r *reader) place(s source, x *subjects.TimeSpan, d block) {
	version, versioned := argOf(x, "version")
	switch {
	case s.role == roleProducer && x.Flow != 0 && len(r.told.episodes[flowOf{s, x.Flow}]) < mostTold:
		k := flowOf{s, x.Flow}
		r.told.episodes[k] = append(r.told.episodes[k], toldSpan{d.start, d.end, d.name, d.lane})
		return
	case s.role == roleTrainer && x.Lane == 0:
		d.lane = 0
		if step, ok := argOf(x, "step"); ok {
			d.step = subjects.Step(step)
		}
		r.told.trainers[s] = append(r.told.trainers[s], d)
		return
	case s.role == roleEngine && x.Lane == 1 && versioned:
		k := syncOf{s.instance, int64(version)}
		r.told.syncs[k] = append(r.told.syncs[k], d)
		return
	}
	r.loose(s, x.Flow, d)
}

// loose draws a span by itself.
func (r *reader) loose(s source, flow uint64, d block) {
	if flow != 0 {
		d.flows = []uint64{flow}
	}
	rank, name := spanRow(s.role, d.name, d.lane-1)
	r.d.add(s, rank, name, d)
}

// spanRow names the row of a span: by the lane its role has for such, or by what it is.
func spanRow(role, span string, lane int32) (rank int, name string) {
	switch {
	case role == roleTrainer && lane == 1:
		return rowCompiles, "compile"
	case role == roleTrainer && lane == 0:
		return rowSteps, "steps"
	case role == roleEngine && lane == 0:
		return rowBatches, "batches"
	case role == roleEngine && lane == 1:
		return rowSyncs, "weight syncs"
	case role == roleGrouper:
		return rowSteps, "work"
	case role == roleBridge && lane%2 == 0: // two lanes a rank
		return rowBatches, "batches"
	case role == roleBridge:
		return rowSyncs, "trainer"
	case role == roleProducer && span == "wait for task":
		return rowSpans, "free slots"
	case role == roleProducer && span == "acknowledge":
		return rowSpans + 1, "acknowledging"
	case role == roleProducer && span == sampleSpan:
		return rowSpans + 2, "sampled"
	}
	return rowSpans, "spans"
}

func argOf(x *subjects.TimeSpan, key string) (float64, bool) {
	for _, a := range x.Args {
		if a.Key == key {
			return a.Value, true
		}
	}
	return 0, false
}
