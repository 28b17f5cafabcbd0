package show

import (
	"context"
	"fmt"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Found is one thing of a run: the ledger's word on it.
type Found struct {
	LedgerSeq uint64                `json:"ledger_seq,omitempty"`
	Batch     *subjects.Batch       `json:"batch,omitempty"`
	Commit    *subjects.CommitEvent `json:"commit,omitempty"`
	Verdict   *subjects.Verdict     `json:"verdict,omitempty"`
	Step      subjects.Step         `json:"trained_in_step,omitempty"`
}

// Step finds the batch of a step and what the trainer said of it.
func Step(ctx context.Context, c *bus.Conn, run subjects.Run, step subjects.Step) (*Found, error) {
	f := &Found{}
	err := Entries(ctx, c, run, func(seq uint64, e *subjects.Entry) {
		for i := range e.Batches {
			if e.Batches[i].Step == step {
				f.Batch, f.LedgerSeq = &e.Batches[i], seq
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if f.Batch == nil {
		return nil, fmt.Errorf("run %s has no batch of step %d", run, step)
	}
	commit := run.WeightsSubject(subjects.EventCommit)
	err = Each(ctx, c, run, subjects.Weights, func(m *bus.Msg) {
		var e subjects.CommitEvent
		if m.Subject == commit && subjects.DecodeMessage(m.Data, &e) == nil && e.Step == step {
			f.Commit = &e
		}
	})
	return f, err
}

// Group finds a group's verdict and the step it was trained in.
func Group(ctx context.Context, c *bus.Conn, run subjects.Run, group subjects.GroupID) (*Found, error) {
	f := &Found{}
	err := Entries(ctx, c, run, func(seq uint64, e *subjects.Entry) { f.group(seq, e, group) })
	if err == nil && f.Verdict == nil {
		err = fmt.Errorf("run %s has no verdict on group %s: it is open or of an evaluation, which has none, or there is no such group", run, group)
	}
	return f, err
}

func (f *Found) group(seq uint64, e *subjects.Entry, group subjects.GroupID) {
	for i := range e.Verdicts {
		if e.Verdicts[i].Group == group {
			f.Verdict, f.LedgerSeq = &e.Verdicts[i], seq
		}
	}
	for i := range e.Batches {
		for j := range e.Batches[i].Groups {
			if e.Batches[i].Groups[j].Group == group {
				f.Step = e.Batches[i].Step
			}
		}
	}
}
