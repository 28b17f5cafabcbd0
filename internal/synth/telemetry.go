package synth

import (
	"math"

	"github.com/headrace/headrace/subjects"
)

// telemetry is what the made-up roles say of themselves. Spans of single episodes
// and engine batches are of the first steps and the last ones: a real run's stream
// would have dropped the others.
type telemetry struct {
	ticks int
	spans map[source][]subjects.TimeSpan
	order []source
}

type source struct{ role, instance string }

const (
	trainerName = "rank0"
	closeUp     = 240 // steps at the end that are seen closely
)

func (t *telemetry) close(w *world) bool {
	n := int(w.trainer.committed)
	return n < 20 || n > w.o.Steps-closeUp
}

func (t *telemetry) add(s source, spans ...subjects.TimeSpan) {
	if t.spans == nil {
		t.spans = map[source][]subjects.TimeSpan{}
	}
	if _, ok := t.spans[s]; !ok {
		t.order = append(t.order, s)
	}
	t.spans[s] = append(t.spans[s], spans...)
}

func (t *telemetry) trainer(_ *world, name string, from, to int64, step subjects.Step) {
	t.add(source{"trainer", trainerName}, subjects.TimeSpan{Name: name, Start: from, Duration: to - from, Args: []subjects.TimeSpanArg{{Key: "step", Value: float64(step)}}})
}

func (t *telemetry) compile(from, to int64) {
	t.add(source{"trainer", trainerName}, subjects.TimeSpan{Name: "compile", Lane: 1, Start: from, Duration: to - from})
}

func (t *telemetry) sync(e *engine, v subjects.PolicyVersion, at int64, phases ...int64) {
	for i, lasts := range phases {
		t.add(source{"engine", e.name}, subjects.TimeSpan{Name: [...]string{"pause", "load", "verify", "resume"}[i], Lane: 1, Start: at, Duration: lasts,
			Args: []subjects.TimeSpanArg{{Key: "version", Value: float64(v)}}})
		at += lasts
	}
}

// episode counts what a producer and an engine did.
func (t *telemetry) episode(_ *world, p *producer, e *engine, tr *subjects.Trajectory) {
	c := p.counts
	c["episodes_"+string(tr.Status)]++
	for i := range tr.Turns {
		u := &tr.Turns[i]
		prompt, sampled := float64(u.Completion.Start), float64(u.Completion.End-u.Completion.Start)
		c["calls"]++
		c["steps"]++
		c["tokens_prompt"], c["tokens_cached"], c["tokens_sampled"] = c["tokens_prompt"]+prompt, c["tokens_cached"]+float64(u.Cached), c["tokens_sampled"]+sampled
		e.prompt, e.cached, e.sampled, e.requests = e.prompt+prompt, e.cached+float64(u.Cached), e.sampled+sampled, e.requests+1
		c["engine_wait_seconds"] += float64(u.Generated-u.Queued) / 1e9
		c["env_wait_seconds"] += float64(max(0, u.Stepped-u.Generated)) / 1e9
	}
	c["forks"] += float64(max(0, len(tr.Segments)-1))
	if tr.Status == subjects.Aborted {
		e.aborted++
	}
}

// bundle notes the publishing of one.
func (t *telemetry) bundle(w *world, p *producer, list []finished) {
	p.counts["publisher_bundles"]++
	if !t.close(w) {
		return
	}
	for i := range list {
		x := &list[i].entry
		t.add(source{"produce", p.name}, subjects.TimeSpan{Name: "publish", Lane: int32(i), Start: w.now - 4*millisecond, Duration: 4 * millisecond, //nolint:gosec // small
			Flow: subjects.FlowID(x.Group, x.Slot, x.Attempt)})
	}
}

// tick has everybody report; seldom where nobody will look closely.
func (t *telemetry) tick(w *world, last bool) {
	t.ticks++
	near := t.close(w)
	if near {
		for _, e := range w.engines {
			t.batches(w, e)
		}
	}
	if !near && t.ticks%10 != 0 && !last {
		return
	}
	t.gauges(w)
	for _, s := range t.order {
		spans := t.spans[s]
		for len(spans) > 0 {
			n := min(len(spans), 4096)
			b := &subjects.SpanBatch{V: 1, Role: s.role, Instance: s.instance, At: w.now, Uncertainty: 200_000}
			b.SetSpans(spans[:n])
			spans = spans[n:]
			t.send(w, w.run.SpanSubject(s.role, s.instance), b)
		}
		t.spans[s] = t.spans[s][:0]
	}
}

// batches are the engine's of the last second.
func (t *telemetry) batches(w *world, e *engine) {
	if e.paused || e.running == 0 {
		return
	}
	for i := range int64(8) {
		t.add(source{"engine", e.name}, subjects.TimeSpan{Name: "batch", Start: w.now - second + i*second/8, Duration: second / 8 * int64(min(96, 10+e.running)) / 100,
			Args: []subjects.TimeSpanArg{{Key: "rows", Value: float64(min(e.running, 64))}, {Key: "tokens", Value: float64(min(e.running, 64))}}})
	}
}

func (t *telemetry) send(w *world, subject string, v any) {
	data, err := subjects.EncodeMessage(v)
	if err != nil {
		w.err = err
		return
	}
	w.store.add(subjects.Telemetry, subject, w.now, nil, data)
}

func (t *telemetry) report(w *world, role, instance, text string, values map[string]float64) {
	t.send(w, w.run.TelemetrySubject(role, instance), &subjects.Gauges{V: 1, Role: role, Instance: instance, At: w.now, Values: values, Text: text})
}

func (t *telemetry) gauges(w *world) {
	v, st := w.core.View(w.now), w.core.Stats()
	g := map[string]float64{"open_groups": float64(v.Open), "kept_groups": float64(v.Kept), "held_trajectories": float64(v.Held), "slots_in_flight": float64(v.InFlight),
		"evaluations_open": float64(v.Rounds), "committed_step": float64(v.Committed), "next_step": float64(v.NextStep), "produced": float64(st.Produced),
		"trained": float64(st.Trained), "evaluation_unused": float64(st.EvalUnused), "inspected": float64(w.report.Bundles), "ledger_entries": float64(w.entries)}
	for reason, n := range st.Dropped {
		g["dropped_"+string(reason)] = float64(n)
	}
	for outcome, n := range st.Outcomes {
		g["groups_"+string(outcome)] = float64(n)
	}
	if v.Oldest > 0 {
		g["oldest_group_seconds"] = float64(w.now-v.Oldest) / 1e9
	}
	t.report(w, "grouper", writer, "waiting for "+v.Waiting, g)
	ready := max(0, float64(v.NextStep-1-v.Committed))
	t.report(w, "bridge", "synthetic", "", map[string]float64{"trainers": 1, "batches_ready": ready, "delivered_step": float64(v.Committed) + min(ready, 1),
		"committed_step": float64(v.Committed), "checkpoint_step": float64(w.trainer.saved), "published_version": float64(v.Committed), "rollouts_bytes": float64(w.report.Bytes),
		"rollouts_limit_bytes": 32 << 30, "inspected_sequence": float64(w.report.Bundles), "inspected_trajectories_total": float64(w.report.Trajectories)})
	for _, p := range w.producers {
		c := map[string]float64{"slots": slotsEach, "episodes_live": float64(p.live), "leases_held": float64(p.live), "publisher_waiting": float64(len(p.pending)),
			"engines": engineCount, "engines_live": engineCount, "publisher_blocked": 0}
		for k, x := range p.counts {
			c[k] = x
		}
		t.report(w, "produce", p.name, "", c)
	}
	for _, e := range w.engines {
		e.report(w)
	}
}

// report is the engine's word on itself, in the names that the sidecar uses.
func (e *engine) report(w *world) {
	paused := 0.0
	if e.paused {
		paused = 1
	}
	w.telemetry.report(w, "engine", e.name, "", map[string]float64{"running": float64(min(e.running, 64)), "waiting": float64(max(0, e.running-64)),
		"token_usage": math.Min(1, float64(e.running)/120), "paused": paused, "version": float64(e.at(w.now)), "tokens_prompt": e.prompt, "tokens_cached": e.cached,
		"tokens_sampled": e.sampled, "requests": e.requests, "aborted": e.aborted, "syncs": e.syncs, "sync_seconds": e.syncTime,
		"device_seconds": e.requests * 0.011, "device_calls": e.requests / 9, "device_rows": e.sampled, "device_row_capacity": e.sampled * 1.4})
}
