package show

import (
	"context"
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// errEnough ends a look at a stream that has shown what was looked for.
var errEnough = errors.New("enough")

// Each hands the messages of a stream to fn, from its start to what is its end now.
func Each(ctx context.Context, c *bus.Conn, run subjects.Run, s subjects.Stream, fn func(*bus.Msg)) error {
	return each(ctx, c, run, s, func(m *bus.Msg) error { fn(m); return nil })
}

// each is Each until fn returns errEnough, or another error.
func each(ctx context.Context, c *bus.Conn, run subjects.Run, s subjects.Stream, fn func(*bus.Msg) error) error {
	state, err := bus.StreamState(ctx, c, run, s)
	if err != nil || state.Msgs == 0 {
		return err
	}
	err = bus.Each(ctx, c, run.StreamName(s), run.Filter(s), state.FirstSeq, func(m *bus.Msg) error {
		if err := fn(m); err != nil {
			return err
		}
		if m.Seq >= state.LastSeq {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// Entries hands the ledger to fn, up to its end now. Entries that cannot be read
// are the error, after all others were handed over.
func Entries(ctx context.Context, c *bus.Conn, run subjects.Run, fn func(uint64, *subjects.Entry)) error {
	return entries(ctx, c, run, func(seq uint64, e *subjects.Entry) error { fn(seq, e); return nil })
}

func entries(ctx context.Context, c *bus.Conn, run subjects.Run, fn func(uint64, *subjects.Entry) error) error {
	var bad error
	err := each(ctx, c, run, subjects.Ledger, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			bad = fmt.Errorf("ledger entry %d: %w", m.Seq, err)
			return nil
		}
		return fn(m.Seq, &e)
	})
	return errors.Join(err, bad)
}
