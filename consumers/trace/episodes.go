package trace

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/consumers/perfetto"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// grace is how long after the window's end a message may be stored of which
// there is something in it: the length of an episode, and then some.
const grace = int64(600e9)

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
	}
	return nil
}

// find adds the messages stored in the window to those that are wanted.
func (r *reader) find(ctx context.Context) error {
	state, err := bus.StreamState(ctx, r.conn, r.run, subjects.Rollouts)
	if err != nil || state.Msgs == 0 || state.LastTime.UnixNano() < r.from {
		return err
	}
	err = bus.FollowHeaders(ctx, r.conn, r.run, state.FirstSeq, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			m := &msgs[i]
			at := m.Time.UnixNano()
			if at >= r.from && at <= r.to+grace && !bus.IsPart(m.Header) {
				r.wanted[m.Seq] = true
			}
			if m.Seq >= state.LastSeq || at > r.to+grace {
				return errEnd
			}
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
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
			s := source{"produce", t.Producer}
			r.d.add(s, rowEpisodes, "episodes", episode(t, r.clocks[s]))
		}
	}
	return nil
}

// episode draws a trajectory, offset nanoseconds later than it says.
func episode(t *subjects.Trajectory, offset int64) block {
	b := block{start: t.Started + offset, end: max(t.Started, t.Finished) + offset, name: "episode", category: "rollout",
		flows: []uint64{subjects.FlowID(t.Group, t.Slot, t.Attempt)},
		args: []perfetto.Arg{perfetto.Text("id", t.ID()), perfetto.Text("environment", t.Environment), perfetto.Text("kind", string(t.Kind)),
			perfetto.Text("status", string(t.Status)), perfetto.Float("reward", t.Reward), perfetto.Text("engine", t.Engine)}}
	if t.Reason != "" {
		b.args = append(b.args, perfetto.Text("reason", t.Reason))
	}
	for i := range t.Turns {
		if turn, ok := turnBlock(t, i, offset); ok && turn.start >= b.start && turn.end <= b.end {
			b.inside = append(b.inside, turn)
		}
	}
	b.inside = ordered(b.inside)
	return b
}

// turnBlock draws a turn: the engine's time, then the environment's. A turn that
// was cut short has fewer times.
func turnBlock(t *subjects.Trajectory, i int, offset int64) (block, bool) {
	u := &t.Turns[i]
	end := max(u.Queued, u.Generated, u.Stepped)
	if u.Queued <= 0 {
		return block{}, false
	}
	b := block{start: u.Queued + offset, end: end + offset, name: "turn", category: "rollout", args: []perfetto.Arg{perfetto.Int("turn", i)}}
	if u.Generated >= u.Queued {
		b.inside = append(b.inside, block{start: b.start, end: u.Generated + offset, name: "generate", category: "engine", args: []perfetto.Arg{
			perfetto.Int("prompt_tokens", u.Prompt.End-u.Prompt.Start), perfetto.Int("tokens", u.Completion.End-u.Completion.Start),
			perfetto.Int("cached_tokens", u.Cached), perfetto.Text("finish", u.Finish)}})
		if u.Stepped >= u.Generated {
			b.inside = append(b.inside, block{start: u.Generated + offset, end: u.Stepped + offset, name: "step", category: "environment",
				args: []perfetto.Arg{perfetto.Float("reward", u.Reward)}})
		}
	}
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
