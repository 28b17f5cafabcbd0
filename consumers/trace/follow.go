package trace

import (
	"context"
	"errors"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

var errEnd = errors.New("read to the end")

// each hands the messages of a stream to fn, up to what is its end now.
func (r *reader) each(ctx context.Context, s subjects.Stream, fn func(*bus.Msg)) error {
	state, err := bus.StreamState(ctx, r.conn, r.run, s)
	if err != nil || state.Msgs == 0 {
		return err
	}
	err = bus.Follow(ctx, r.conn, r.run.StreamName(s), "", state.FirstSeq, func(m *bus.Msg) error {
		if m.Seq <= state.LastSeq {
			fn(m)
		}
		if m.Seq >= state.LastSeq || m.Pending == 0 {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// entries hands the ledger's entries to fn. One that cannot be read is passed
// over: `headrace audit` is for that.
func (r *reader) entries(ctx context.Context, fn func(*subjects.Entry)) error {
	return r.each(ctx, subjects.Ledger, func(m *bus.Msg) {
		var e subjects.Entry
		if subjects.DecodeMessage(m.Data, &e) == nil {
			fn(&e)
		}
	})
}
