package trace

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/consumers/perfetto"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// fetched is how many messages are asked for at a time.
const fetched = 256

// rollouts draws the episodes that were played in the window, and those that
// its batches are from.
func (r *reader) rollouts(ctx context.Context) error {
	if err := r.find(ctx); err != nil {
		return err
	}
	fetch := bus.NewFetcher(r.conn, r.run.StreamName(subjects.Rollouts), bus.FetchConfig{})
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(r.wanted)), fetched) {
		var want []bus.SeqSize
		for _, seq := range chunk {
			if r.report.Trajectories >= r.o.MaxTrajectories {
				r.report.LeftOut += r.wanted[seq]
				continue
			}
			want = append(want, bus.SeqSize{Seq: seq})
		}
		var missing *bus.MissingError
		err := fetch.Fetch(ctx, want, r.bundle)
		switch {
		case errors.As(err, &missing):
			r.report.Unread += len(missing.Seqs)
		case errors.Is(err, bus.ErrMalformed):
			r.report.Unread++
		case err != nil:
			return err
		}
		r.read(len(want))
	}
	return nil
}

func (r *reader) bundle(seq uint64, hdr nats.Header, data []byte) error {
	b, err := bus.OpenBundle(seq, hdr, data)
	if err != nil {
		r.report.Unread++
		return nil
	}
	for i := range b.Items {
		body := b.Body(i)
		if body == nil {
			r.report.Unread++
			continue
		}
		t, err := subjects.DecodeTrajectory(body)
		switch {
		case err != nil:
			r.report.Unread++
		case !r.sees(t.Started, t.Finished):
		case r.report.Trajectories == r.o.MaxTrajectories:
			r.report.LeftOut++
		default:
			r.report.Trajectories++
			s := source{roleProducer, t.Producer}
			k := flowOf{s, subjects.FlowID(t.Group, t.Slot, t.Attempt)}
			r.d.add(s, rowEpisodes, "episodes", episode(t, r.clocks[s].ahead, r.told.episodes[k]))
			delete(r.told.episodes, k)
		}
	}
	return nil
}

// episode draws a trajectory, offset nanoseconds later than it says. What is
// inside of it is put together when it is written: a window has many.
func episode(t *subjects.Trajectory, offset int64, told []toldSpan) block {
	small := *t // without its tokens and texts
	small.Segments, small.Messages, small.Task = nil, nil, nil
	b := block{start: t.Started + offset, end: max(t.Started, t.Finished) + offset, name: "episode", category: "rollout",
		flows: []uint64{subjects.FlowID(t.Group, t.Slot, t.Attempt)}}
	slices.SortStableFunc(told, func(x, y toldSpan) int { return cmp.Compare(x.start, y.start) })
	played := b.end
	for _, x := range told {
		if x.start >= b.end {
			b.end = max(b.end, x.end)
		}
	}
	b.detail = func(b *block) {
		b.args = episodeFacts(&small)
		b.inside = episodeParts(&small, b.start, played, offset, told)
	}
	return b
}

func episodeFacts(t *subjects.Trajectory) []perfetto.Arg {
	args := []perfetto.Arg{perfetto.Text("id", t.ID()), perfetto.Text("environment", t.Environment), perfetto.Text("kind", string(t.Kind)),
		perfetto.Text("status", string(t.Status)), perfetto.Float("reward", t.Reward), perfetto.Text("engine", t.Engine)}
	if t.Reason != "" {
		args = append(args, perfetto.Text("reason", t.Reason))
	}
	return args
}

// episodeParts are its turns from the log, and within and behind them what its
// producer told.
func episodeParts(t *subjects.Trajectory, start, end, offset int64, told []toldSpan) []block {
	var turns []block
	for i := range t.Turns {
		if turn, ok := turnBlock(t, i, offset, told); ok && turn.start >= start && turn.end <= end {
			turns = append(turns, turn)
		}
	}
	turns = ordered(turns)
	if len(turns) > 0 && turns[0].start > start {
		turns = append([]block{{start: start, end: turns[0].start, name: "reset", category: "environment"}}, turns...)
	}
	inside := append(turns, reward(t, turns)...)
	for _, x := range told { // what came after its end: publishing, and acknowledging in older runs
		if x.start >= end {
			inside, end = append(inside, x.block()), max(end, x.end)
		}
	}
	return inside
}

// reward marks what the environment gave, where the last turn ended.
func reward(t *subjects.Trajectory, turns []block) []block {
	if !t.Status.Trained() || len(turns) == 0 {
		return nil
	}
	at := turns[len(turns)-1].end
	m := block{start: at, end: at, mark: true, name: "reward", category: "environment", args: []perfetto.Arg{perfetto.Float("reward", t.Reward)}}
	for _, name := range slices.Sorted(maps.Keys(t.Components)) {
		m.args = append(m.args, perfetto.Float(name, t.Components[name]))
	}
	return []block{m}
}

// turnBlock draws a turn: the engine's time, then the environment's. A turn that
// was cut short has fewer times. What the producer told of it lies between: how
// long the call waited for a place at the engine, and how long its answer took to read.
func turnBlock(t *subjects.Trajectory, i int, offset int64, told []toldSpan) (block, bool) {
	u := &t.Turns[i]
	end := max(u.Queued, u.Generated, u.Stepped)
	if u.Queued <= 0 {
		return block{}, false
	}
	b := block{start: u.Queued + offset, end: end + offset, name: "turn", category: "rollout", args: []perfetto.Arg{perfetto.Int("turn", i)}}
	if u.Generated < u.Queued {
		return b, true
	}
	generate := block{start: b.start, end: u.Generated + offset, name: "generate", category: "engine", args: []perfetto.Arg{
		perfetto.Int("prompt_tokens", u.Prompt.End-u.Prompt.Start), perfetto.Int("tokens", u.Completion.End-u.Completion.Start),
		perfetto.Int("cached_tokens", u.Cached), perfetto.Text("finish", u.Finish)}}
	step := block{start: generate.end, end: max(u.Stepped, u.Generated) + offset, name: "step", category: "environment",
		args: []perfetto.Arg{perfetto.Float("reward", u.Reward)}}
	for _, x := range told {
		switch {
		case x.name == "queue" && x.start >= generate.start && x.end <= generate.end:
			b.inside, generate.start = append(b.inside, x.block()), x.end
		case x.name == "parse" && x.start >= step.start && x.end <= step.end:
			b.inside, step.start = append(b.inside, x.block()), x.end
		}
	}
	b.inside = append(b.inside, generate)
	if u.Stepped >= u.Generated {
		b.inside = append(b.inside, step)
	}
	slices.SortStableFunc(b.inside, func(x, y block) int { return cmp.Compare(x.start, y.start) })
	return b, true
}

// ordered leaves out what begins before the one before it ended: times that a
// producer made up would confuse the viewer.
func ordered(turns []block) []block {
	last := int64(0)
	return slices.DeleteFunc(turns, func(b block) bool {
		if b.start < last {
			return true
		}
		last = b.end
		return false
	})
}
