package trace

import (
	"context"
	"errors"
	"math"
	"sort"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

var errEnd = errors.New("read to the end")

// reach is a range of a stream's sequences, both included; none if Last < First.
type reach struct{ First, Last uint64 }

// stored is what a stream was given from a time on up to another, by the
// server's clock: found without reading what lies before.
func (r *reader) stored(ctx context.Context, s subjects.Stream, from, to int64) (reach, error) {
	state, err := bus.StreamState(ctx, r.conn, r.run, s)
	if err != nil || state.Msgs == 0 {
		return reach{1, 0}, err
	}
	all := reach{state.FirstSeq, state.LastSeq}
	if r.copied {
		return r.happened(ctx, s, all, from, to)
	}
	if from > state.FirstTime.UnixNano() {
		first, err := bus.SeqAt(ctx, r.conn, r.run, s, time.Unix(0, from))
		if err != nil {
			return all, err
		}
		all.First = max(all.First, first)
	}
	if to < state.LastTime.UnixNano() {
		after, err := bus.SeqAt(ctx, r.conn, r.run, s, time.Unix(0, to+1))
		if err != nil {
			return all, err
		}
		all.Last = min(all.Last, after-1)
	}
	return all, nil
}

// happened is what of a stream tells of a time, by what its messages say: of a
// copy, whose messages were all stored at one time. They are in order as far as
// the clocks of those who wrote them agree.
func (r *reader) happened(ctx context.Context, s subjects.Stream, all reach, from, to int64) (reach, error) {
	var failure error
	first := func(after int64) uint64 {
		return all.First + uint64(sort.Search(int(all.Last+1-all.First), func(i int) bool {
			at, err := r.says(ctx, s, all.First+uint64(i))
			failure = errors.Join(failure, err)
			return err != nil || at >= after
		}))
	}
	out := reach{first(from), all.Last}
	if failure == nil {
		out.Last = first(to+1) - 1
	}
	return out, failure
}

// says is the time that the first message from a sequence on says that can be
// read; for ever after the last.
func (r *reader) says(ctx context.Context, s subjects.Stream, seq uint64) (int64, error) {
	for {
		m, err := bus.Next(ctx, r.conn, r.run.StreamName(s), r.run.Filter(s), seq)
		if errors.Is(err, bus.ErrNotFound) {
			return math.MaxInt64, nil
		}
		if err != nil {
			return 0, err
		}
		r.read(1)
		var told struct {
			At int64 `msgpack:"at"`
		}
		if subjects.DecodeMessage(m.Data, &told) == nil && told.At > 0 {
			return told.At, nil
		}
		seq = m.Seq + 1
	}
}

// around is what a stream was given that may tell of the window: a message
// comes after what it tells of, but for what clocks differ.
func (r *reader) around(ctx context.Context, s subjects.Stream) (reach, error) {
	return r.stored(ctx, s, r.from-slack, r.to+r.grace())
}

// slack is how far apart the clocks of a process and of the server may be
// before a report is looked for in the wrong place.
const slack = int64(5e9)

// grace is how long after the window's end there may still come what began in
// it: twice the window, from one minute to ten.
func (r *reader) grace() int64 {
	return min(max(2*(r.to-r.from), int64(time.Minute)), int64(10*time.Minute))
}

// each hands the messages of a range to fn.
func (r *reader) each(ctx context.Context, s subjects.Stream, of reach, fn func(*bus.Msg)) error {
	if of.Last < of.First {
		return nil
	}
	err := bus.Each(ctx, r.conn, r.run.StreamName(s), "", of.First, func(m *bus.Msg) error {
		if m.Seq <= of.Last {
			r.read(1)
			fn(m)
		}
		if m.Seq >= of.Last {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// read counts messages, for the report and for who waits.
func (r *reader) read(n int) {
	before := r.report.Read
	r.report.Read += n
	if r.o.Progress != nil && before/progressEvery != r.report.Read/progressEvery {
		r.o.Progress(r.stage, r.report.Read)
	}
}

const progressEvery = 2000
