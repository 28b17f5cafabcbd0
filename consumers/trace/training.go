package trace

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/headrace/headrace/consumers/perfetto"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Names of what the trainer does, as its own spans have them.
const (
	nameStart = "start"
	nameWait  = "wait for batch"
	nameTrain = "train step"
)

// weights draws what the trainer and the engines reported: steps, waits,
// published versions, checkpoints, syncs.
func (r *reader) weights(ctx context.Context) error {
	of, err := r.around(ctx, subjects.Weights)
	if err != nil {
		return err
	}
	var commits []subjects.CommitEvent
	trainer := r.trainer()
	err = r.each(ctx, subjects.Weights, of, func(m *bus.Msg) {
		switch m.Subject {
		case r.run.WeightsSubject(subjects.EventCommit):
			var c subjects.CommitEvent
			if subjects.DecodeMessage(m.Data, &c) == nil && r.sees(c.At-nanos(c.TrainSeconds+c.WaitSeconds), c.At) {
				commits = append(commits, c)
			}
		case r.run.WeightsSubject(subjects.EventVersion):
			var e subjects.VersionEvent
			r.event(m, trainer, &e, func() (int64, perfetto.Arg) { return e.At, perfetto.Int("version", e.Version) })
		case r.run.WeightsSubject(subjects.EventCheckpoint):
			var e subjects.CheckpointEvent
			r.event(m, trainer, &e, func() (int64, perfetto.Arg) { return e.At, perfetto.Int("step", e.Step) })
		case r.run.WeightsSubject(subjects.EventResumed):
			var e subjects.ResumedEvent
			r.event(m, trainer, &e, func() (int64, perfetto.Arg) { return e.At, perfetto.Int("step", e.Step) })
		default:
			r.ack(m)
		}
	})
	if err != nil {
		return err
	}
	var flows map[subjects.Step][]uint64
	if len(commits) > 0 {
		if flows, err = r.flowsOf(ctx, commits); err != nil {
			return err
		}
	}
	return r.drawTrainer(ctx, trainer, commits, flows)
}

// trainer is the process that commits: the first rank of those that report, or
// one that nothing is known of but its commits.
func (r *reader) trainer() source {
	first := source{role: roleTrainer}
	for s := range r.told.trainers {
		if first.instance == "" || s.instance < first.instance {
			first = s
		}
	}
	return first
}

// event marks one of the trainer's events by the last token of its subject.
func (r *reader) event(m *bus.Msg, trainer source, e any, facts func() (int64, perfetto.Arg)) {
	if subjects.DecodeMessage(m.Data, e) != nil {
		return
	}
	if at, arg := facts(); r.sees(at, at) {
		r.d.add(trainer, rowEvents, "events", block{start: at, end: at, mark: true, name: lastToken(m.Subject), category: "weights", args: []perfetto.Arg{arg}})
	}
}

// drawTrainer puts the trainers' spans on their lines. Of the one that commits,
// the last part of each train step gets what its commit says and the flows; a
// commit without such a span is drawn from its own times. What a trainer waits
// for its first batch is its start, as on the board: nobody could have kept it busy.
func (r *reader) drawTrainer(ctx context.Context, trainer source, commits []subjects.CommitEvent, flows map[subjects.Step][]uint64) error {
	ends := map[int]*subjects.CommitEvent{}
	blocks := r.told.trainers[trainer]
	slices.SortStableFunc(blocks, func(a, b block) int { return cmp.Compare(a.start, b.start) })
	var bare []subjects.CommitEvent
	for i := range commits {
		c := &commits[i]
		if n := spanOf(blocks, c); n >= 0 {
			ends[n] = c
		} else {
			bare = append(bare, *c)
		}
		r.report.Steps++
	}
	starting := false
	for i, b := range blocks {
		if starting = b.name == nameStart || starting && b.name != nameTrain; starting && b.name == nameWait {
			b.name, b.args = nameStart, append(slices.Clone(b.args), perfetto.Text("waits for", "its first batch"))
		}
		if c := ends[i]; c != nil {
			b.ends, b.args = flows[c.Step], slices.Concat(b.args, factsOf(c))
		}
		r.count(b)
		r.d.add(trainer, rowSteps, "steps", b)
	}
	for s, others := range r.told.trainers {
		for _, b := range others {
			if s != trainer {
				r.d.add(s, rowSteps, "steps", b)
			}
		}
	}
	return r.drawCommits(ctx, trainer, bare, flows)
}

// commitLag is how long after its train step a commit may say that it was.
const commitLag = int64(10e9)

// spanOf is the place of the last span of the step that the commit ended, -1: none.
func spanOf(blocks []block, c *subjects.CommitEvent) int {
	for i := len(blocks) - 1; i >= 0; i-- {
		b := &blocks[i]
		if b.name == nameTrain && b.step == c.Step && b.start <= c.At+slack && b.end >= c.At-commitLag {
			return i
		}
	}
	return -1
}

func (r *reader) count(b block) {
	switch b.name {
	case nameWait:
		r.waited += b.end - b.start
	case nameTrain:
		r.trained += b.end - b.start
	}
}

// factsOf is what a commit says.
func factsOf(c *subjects.CommitEvent) []perfetto.Arg {
	args := []perfetto.Arg{perfetto.Int("incarnation", c.Incarnation), perfetto.Int("tokens", c.Tokens),
		perfetto.Float("train_seconds", c.TrainSeconds), perfetto.Float("wait_seconds", c.WaitSeconds)}
	for _, name := range slices.Sorted(maps.Keys(c.Metrics)) {
		args = append(args, perfetto.Float(name, c.Metrics[name]))
	}
	return args
}

// drawCommits draws commits by their own times: a wait, then the step. A commit
// names its end; a wait that would begin before the step before ended is cut. The
// first wait of a trainer is its start.
func (r *reader) drawCommits(ctx context.Context, trainer source, commits []subjects.CommitEvent, flows map[subjects.Step][]uint64) error {
	before := int64(0)
	for i := range commits {
		c := &commits[i]
		step := perfetto.Int("step", c.Step)
		began := max(c.At-nanos(c.TrainSeconds), before)
		if waited := max(began-nanos(c.WaitSeconds), before); waited < began {
			first := i > 0 && commits[i-1].Incarnation != c.Incarnation
			if i == 0 {
				var err error
				if first, err = r.starts(ctx, c); err != nil {
					return err
				}
			}
			b := block{start: waited, end: began, name: nameWait, category: roleTrainer, args: []perfetto.Arg{step}}
			if first {
				b.name = nameStart
			}
			r.count(b)
			r.d.add(trainer, rowSteps, "steps", b)
		}
		b := block{start: began, end: max(c.At, began), name: nameTrain, category: roleTrainer, ends: flows[c.Step], args: append([]perfetto.Arg{step}, factsOf(c)...)}
		r.count(b)
		r.d.add(trainer, rowSteps, "steps", b)
		before = b.end
	}
	return nil
}

// starts reports whether a commit is the first of its trainer's start.
func (r *reader) starts(ctx context.Context, c *subjects.CommitEvent) (bool, error) {
	if c.Step <= 1 {
		return true, nil
	}
	last, err := r.commit(ctx, c.Step-1)
	return last != nil && last.event.Incarnation != c.Incarnation, err
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
	k := syncOf{a.Engine, int64(a.Version)}
	told := r.told.syncs[k]
	if len(told) > 0 { // by the clock of the process that did it
		delete(r.told.syncs, k)
		b.inside = nest(told)
		b.start, b.end = b.inside[0].start, b.inside[len(b.inside)-1].end
	}
	if a.Error != "" {
		b.args = append(b.args, perfetto.Text("error", a.Error))
	}
	for _, p := range phases {
		if d := nanos(p.seconds); d > 0 && len(told) == 0 {
			b.inside = append(b.inside, block{start: start, end: start + d, name: p.name, category: "weights"})
			start += d
		}
	}
	r.report.Syncs++
	r.d.add(source{roleEngine, a.Engine}, rowSyncs, "weight syncs", b)
}
