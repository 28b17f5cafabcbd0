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
	return r.entries(ctx, func(e *subjects.Entry) {
		by := source{"grouper", e.Writer}
		for i := range e.Verdicts {
			if v := &e.Verdicts[i]; r.sees(v.Opened, v.Closed) {
				r.report.Groups++
				r.d.add(by, rowGroups, "groups", groupBlock(v))
			}
		}
		for i := range e.Batches {
			b := &e.Batches[i]
			if b.Step >= r.o.First && b.Step <= r.o.Final {
				r.want(b)
			}
			if r.sees(e.At, e.At) {
				r.d.add(by, rowBatches, "batches", batchMark(b, e.At))
			}
		}
		if e.End != "" && r.sees(e.At, e.At) {
			r.d.add(by, rowBatches, "batches", block{start: e.At, end: e.At, mark: true, name: "end", args: []perfetto.Arg{perfetto.Text("reason", e.End)}})
		}
	})
}

// want notes the messages that the batch is from.
func (r *reader) want(b *subjects.Batch) {
	for i := range b.Groups {
		for _, m := range b.Groups[i].Members {
			r.wanted[m.Seq] = true
		}
	}
}

func groupBlock(v *subjects.Verdict) block {
	var flows []uint64
	if v.Outcome.Trained() {
		flows = memberFlows(nil, v.Group, v.Members)
	}
	return block{start: v.Opened, end: max(v.Opened, v.Closed), name: string(v.Outcome), category: "group",
		args:   []perfetto.Arg{perfetto.Text("group", string(v.Group)), perfetto.Int("members", len(v.Members)), perfetto.Int("unused", v.Unused)},
		inside: []block{{start: v.Closed, end: v.Closed, mark: true, name: "close", category: "group", flows: flows}}}
}

func batchMark(b *subjects.Batch, at int64) block {
	return block{start: at, end: at, mark: true, name: "batch", category: "batch", flows: batchFlows(b), args: []perfetto.Arg{
		perfetto.Int("step", b.Step), perfetto.Int("groups", len(b.Groups)), perfetto.Int("rows", b.Rows), perfetto.Int("tokens", b.Tokens),
		perfetto.Float("staleness_mean", b.StalenessMean), perfetto.Int("staleness_max", b.StalenessMax), perfetto.Float("reward_mean", b.RewardMean)}}
}

func batchFlows(b *subjects.Batch) (flows []uint64) {
	for i := range b.Groups {
		flows = memberFlows(flows, b.Groups[i].Group, b.Groups[i].Members)
	}
	return flows
}

func memberFlows(flows []uint64, g subjects.GroupID, members []subjects.Member) []uint64 {
	for _, m := range members {
		flows = append(flows, subjects.FlowID(g, m.Slot, m.Attempt))
	}
	return flows
}

// flowsOf collects the flows of the batches whose steps are drawn.
func (r *reader) flowsOf(ctx context.Context, steps map[subjects.Step]bool) (map[subjects.Step][]uint64, error) {
	flows := map[subjects.Step][]uint64{}
	err := r.entries(ctx, func(e *subjects.Entry) {
		for i := range e.Batches {
			if b := &e.Batches[i]; steps[b.Step] {
				flows[b.Step] = batchFlows(b)
			}
		}
	})
	return flows, err
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
