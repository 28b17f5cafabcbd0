package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

var errEnd = errors.New("read to the end")

// entries hands the ledger to fn, up to its end now or until fn returns errEnd.
func entries(ctx context.Context, c *bus.Conn, run subjects.Run, fn func(*subjects.Entry) error) error {
	state, err := bus.StreamState(ctx, c, run, subjects.Ledger)
	if err != nil || state.Msgs == 0 {
		return err
	}
	err = bus.Each(ctx, c, run.StreamName(subjects.Ledger), "", state.FirstSeq, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return fmt.Errorf("read ledger entry %d: %w (`headrace audit %s` says what else is wrong)", m.Seq, err, run)
		}
		if err := fn(&e); err != nil {
			return err
		}
		if m.Seq >= state.LastSeq {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// trained reads which of the steps trained on what.
func trained(ctx context.Context, c *bus.Conn, run subjects.Run, steps Steps) (stepOf, error) {
	at, last := stepOf{}, subjects.Step(0)
	err := entries(ctx, c, run, func(e *subjects.Entry) error {
		for i := range e.Batches {
			if b := &e.Batches[i]; steps.Has(b.Step) {
				at.add(b)
			}
			if last = max(last, e.Batches[i].Step); last > steps.To {
				return errEnd
			}
		}
		return nil
	})
	if err == nil && len(at) == 0 {
		err = fmt.Errorf("run %s has no batch of steps %d to %d: its last one is of step %d", run, steps.From, steps.To, last)
	}
	return at, err
}

func (s stepOf) add(b *subjects.Batch) {
	for i := range b.Groups {
		for k := range b.Groups[i].Members {
			m := &b.Groups[i].Members[k]
			s[subjects.Address{Seq: m.Seq, Index: m.Index}] = b.Step
		}
	}
}

// bounds are the lowest and highest sequence.
func (s stepOf) bounds() (low, high uint64) {
	for a := range s {
		if low == 0 || a.Seq < low {
			low = a.Seq
		}
		high = max(high, a.Seq)
	}
	return low, high
}

// UntilStep is the last ROLLOUTS sequence that the batch of a step was cut on.
func UntilStep(ctx context.Context, c *bus.Conn, run subjects.Run, step subjects.Step) (seq uint64, err error) {
	last := subjects.Step(0)
	err = entries(ctx, c, run, func(e *subjects.Entry) error {
		for i := range e.Batches {
			if last = e.Batches[i].Step; last == step {
				seq = e.Rollouts
				return errEnd
			}
		}
		return nil
	})
	if err == nil && seq == 0 {
		err = fmt.Errorf("run %s has no batch of step %d: its last one is of step %d", run, step, last)
	}
	return seq, err
}
