package trace

import (
	"context"
	"maps"
	"slices"

	"github.com/headrace/headrace/consumers/perfetto"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

var trainer = source{role: "trainer"}

// weights draws what the trainer and the engines reported: steps, waits,
// published versions, checkpoints, syncs.
func (r *reader) weights(ctx context.Context) error {
	var commits []subjects.CommitEvent
	steps := map[subjects.Step]bool{}
	err := r.each(ctx, subjects.Weights, func(m *bus.Msg) {
		switch m.Subject {
		case r.run.WeightsSubject(subjects.EventCommit):
			var c subjects.CommitEvent
			if subjects.DecodeMessage(m.Data, &c) == nil && r.sees(c.At-nanos(c.TrainSeconds+c.WaitSeconds), c.At) {
				commits, steps[c.Step] = append(commits, c), true
			}
		case r.run.WeightsSubject(subjects.EventVersion):
			var e subjects.VersionEvent
			r.event(m, &e, func() (int64, perfetto.Arg) { return e.At, perfetto.Int("version", e.Version) })
		case r.run.WeightsSubject(subjects.EventCheckpoint):
			var e subjects.CheckpointEvent
			r.event(m, &e, func() (int64, perfetto.Arg) { return e.At, perfetto.Int("step", e.Step) })
		case r.run.WeightsSubject(subjects.EventResumed):
			var e subjects.ResumedEvent
			r.event(m, &e, func() (int64, perfetto.Arg) { return e.At, perfetto.Int("step", e.Step) })
		default:
			r.ack(m)
		}
	})
	if err != nil || len(commits) == 0 {
		return err
	}
	flows, err := r.flowsOf(ctx, steps)
	if err == nil {
		r.drawSteps(commits, flows)
	}
	return err
}

// event marks one of the trainer's events by the last token of its subject.
func (r *reader) event(m *bus.Msg, e any, facts func() (int64, perfetto.Arg)) {
	if subjects.DecodeMessage(m.Data, e) != nil {
		return
	}
	if at, arg := facts(); r.sees(at, at) {
		r.d.add(trainer, rowEvents, "events", block{start: at, end: at, mark: true, name: lastToken(m.Subject), category: "weights", args: []perfetto.Arg{arg}})
	}
}

// drawSteps puts the commits on the trainer's line: a wait, then the step. A commit
// names its end; a wait that would begin before the step before ended is cut.
func (r *reader) drawSteps(commits []subjects.CommitEvent, flows map[subjects.Step][]uint64) {
	before := int64(0)
	for i := range commits {
		c := &commits[i]
		began := max(c.At-nanos(c.TrainSeconds), before)
		args := []perfetto.Arg{perfetto.Int("step", c.Step), perfetto.Int("incarnation", c.Incarnation)}
		if waited := max(began-nanos(c.WaitSeconds), before); waited < began {
			r.d.add(trainer, rowSteps, "steps", block{start: waited, end: began, name: "wait", category: "trainer", args: args})
		}
		args = append(args, perfetto.Int("tokens", c.Tokens), perfetto.Float("train_seconds", c.TrainSeconds), perfetto.Float("wait_seconds", c.WaitSeconds))
		for _, name := range slices.Sorted(maps.Keys(c.Metrics)) {
			args = append(args, perfetto.Float(name, c.Metrics[name]))
		}
		r.d.add(trainer, rowSteps, "steps", block{start: began, end: max(c.At, began), name: "train step", category: "trainer", ends: flows[c.Step], args: args})
		before = max(c.At, began)
		r.report.Steps++
		r.report.WaitSeconds += c.WaitSeconds
		r.report.TrainSeconds += c.TrainSeconds
	}
}

// ack draws an engine's sync: its phases one after the other, up to the answer.
func (r *reader) ack(m *bus.Msg) {
	var a subjects.AckEvent
	if prefix := r.run.AckSubject(""); len(m.Subject) <= len(prefix) || m.Subject[:len(prefix)] != prefix || subjects.DecodeMessage(m.Data, &a) != nil {
		return
	}
	phases := []struct {
		name    string
		seconds float64
	}{{"pause", a.PauseSeconds}, {"load", a.LoadSeconds}, {"verify", a.VerifySeconds}, {"resume", a.ResumeSeconds}}
	start := a.At
	for _, p := range phases {
		start -= nanos(p.seconds)
	}
	if !r.sees(start, a.At) {
		return
	}
	b := block{start: start, end: a.At, name: "weight sync", category: "weights", args: []perfetto.Arg{perfetto.Int("version", a.Version)}}
	if a.Error != "" {
		b.args = append(b.args, perfetto.Text("error", a.Error))
	}
	for _, p := range phases {
		if d := nanos(p.seconds); d > 0 {
			b.inside = append(b.inside, block{start: start, end: start + d, name: p.name, category: "weights"})
			start += d
		}
	}
	r.report.Syncs++
	r.d.add(source{"engine", a.Engine}, rowSyncs, "weight syncs", b)
}
