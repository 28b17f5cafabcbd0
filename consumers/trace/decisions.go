package trace

import (
	"context"

	"github.com/headrace/headrace/consumers/perfetto"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// The rows of a process, in their order.
const (
	rowSteps = iota + 1
	rowCompiles
	rowEvents
	rowGroups // before batches: a flow takes what is written first of one time
	rowBatches
	rowSyncs
	rowEpisodes
	rowSpans
)

// ledger draws groups and batches. A trajectory's flow goes from its episode by
// way of its group's close and its batch to the train step.
func (r *reader) ledger(ctx context.Context) error {
	if err := r.book.open(ctx); err != nil {
		return err
	}
	for _, p := range r.book.pages {
		by := source{roleGrouper, p.writer}
		for i := range p.verdicts {
			if v := &p.verdicts[i]; r.sees(v.Opened, v.Closed) {
				r.report.Groups++
				r.d.add(by, rowGroups, "groups", groupBlock(v))
			}
		}
		drawn := r.sees(p.at, p.at)
		for i := range p.batches {
			b := &p.batches[i]
			if b.Step >= r.o.First && b.Step <= r.o.Final || r.copied && drawn {
				r.want(b)
			}
			if drawn {
				r.d.add(by, rowBatches, "batches", batchMark(b, p.at))
			}
		}
		if !drawn {
			continue
		}
		for i := range p.evals {
			r.d.add(by, rowBatches, "batches", evalMark(&p.evals[i], p.at))
		}
		if p.end != "" {
			r.d.add(by, rowBatches, "batches", block{start: p.at, end: p.at, mark: true, name: "end", args: []perfetto.Arg{perfetto.Text("reason", p.end)}})
		}
	}
	return nil
}

// want notes the messages that the batch is from.
func (r *reader) want(b *cut) {
	for _, seq := range b.seqs {
		r.wanted[seq] = max(r.wanted[seq], 1)
	}
}

func evalMark(v *subjects.EvalResult, at int64) block {
	return block{start: at, end: at, mark: true, name: "evaluation", category: "batch", args: []perfetto.Arg{perfetto.Int("step", v.Round), perfetto.Int("tasks", v.Tasks),
		perfetto.Float("reward", v.Sampled), perfetto.Float("greedy", v.Greedy), perfetto.Int("failed", v.Failed)}}
}

func groupBlock(v *closing) block {
	return block{start: v.Opened, end: max(v.Opened, v.Closed), name: string(v.Outcome), category: "group",
		args:   []perfetto.Arg{perfetto.Text("group", string(v.Group)), perfetto.Int("members", v.members), perfetto.Int("unused", v.Unused)},
		inside: []block{{start: v.Closed, end: v.Closed, mark: true, name: "close", category: "group", flows: v.flows}}}
}

func batchMark(b *cut, at int64) block {
	return block{start: at, end: at, mark: true, name: "batch", category: "batch", flows: b.flows, args: []perfetto.Arg{
		perfetto.Int("step", b.Step), perfetto.Int("groups", len(b.groups)), perfetto.Int("rows", b.Rows), perfetto.Int("tokens", b.Tokens),
		perfetto.Float("staleness_mean", b.StalenessMean), perfetto.Int("staleness_max", b.StalenessMax), perfetto.Float("reward_mean", b.RewardMean)}}
}

// flowsOf collects the flows of the batches whose steps are drawn; it reads back
// to those that were cut long before.
func (r *reader) flowsOf(ctx context.Context, commits []subjects.CommitEvent) (map[subjects.Step][]uint64, error) {
	first, final := commits[0].Step, commits[0].Step
	for i := range commits {
		first, final = min(first, commits[i].Step), max(final, commits[i].Step)
	}
	if err := r.book.find(ctx, first); err != nil {
		return nil, err
	}
	flows := map[subjects.Step][]uint64{}
	r.book.batches(first, final, func(b *cut) { flows[b.Step] = b.flows })
	return flows, nil
}

// stallKey names a stall that is reported again while it lasts.
type stallKey struct {
	writer string
	since  int64
	code   subjects.StallCode
}

// stall notes what the watchdog said, as long as the run had stood then.
func (r *reader) stall(m *bus.Msg, writer string, stalls map[stallKey]block) {
	var s subjects.Stall
	if subjects.DecodeMessage(m.Data, &s) == nil && s.Code != "" && r.sees(s.Since, s.At) {
		stalls[stallKey{writer, s.Since, s.Code}] = block{start: s.Since, end: max(s.Since, s.At), name: string(s.Code), category: "stall",
			args: []perfetto.Arg{perfetto.Text("text", s.Text), perfetto.Text("stage", s.Stage)}}
	}
}
