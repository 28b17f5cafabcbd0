package audit

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

var (
	errEnd   = errors.New("read to the end")
	errQuiet = errors.New("nothing comes")
)

// quiet is how long a stream may give nothing although there should be more:
// then what is left is asked for one by one, since a damaged store passes over
// what it cannot read without a word. probes is how many at a time.
const (
	quiet  = 3 * time.Second
	probes = 256
)

// read hands every message of a stream up to the cut to fn, in order; Skipped
// counts those missing before it. It returns the first sequence that was neither
// handed over nor skipped: one more than the last, unless the end is missing.
func (a *auditor) read(ctx context.Context, s subjects.Stream, state *jetstream.StreamState, fn func(*bus.Msg) error) (next uint64, err error) {
	next = 1
	to := state.LastSeq
	if state.Msgs == 0 {
		return next, nil
	}
	hand := func(m *bus.Msg) error {
		m.Skipped = m.Seq - next
		next = m.Seq + 1
		return fn(m)
	}
	for at := max(state.FirstSeq, 1); at <= to; {
		err := a.follow(ctx, a.run.StreamName(s), at, to, hand)
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, errQuiet) {
			return next, err
		}
		if at = max(at, next); at > to {
			return next, nil
		}
		end := min(at+probes-1, to)
		if err := a.probe(ctx, a.run.StreamName(s), at, end, hand); err != nil {
			return next, err
		}
		at = end + 1
	}
	return next, nil
}

// follow reads until the end of what there is (nil) or until nothing comes.
func (a *auditor) follow(ctx context.Context, stream string, from, to uint64, fn func(*bus.Msg) error) error {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timer := time.AfterFunc(quiet, func() { stop(errQuiet) })
	defer timer.Stop()
	err := bus.Follow(waiting, a.conn, stream, "", from, func(m *bus.Msg) error {
		timer.Stop()
		defer timer.Reset(quiet)
		if m.Seq <= to {
			if err := fn(m); err != nil {
				return err
			}
		}
		if m.Seq >= to || m.Pending == 0 {
			return errEnd
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnd):
		return nil
	case ctx.Err() == nil && waiting.Err() != nil:
		return errQuiet
	}
	return err
}

// probe asks for messages by sequence; those that are missing are passed over.
func (a *auditor) probe(ctx context.Context, stream string, from, to uint64, fn func(*bus.Msg) error) error {
	var want []bus.SeqSize
	for seq := from; seq <= to; seq++ {
		want = append(want, bus.SeqSize{Seq: seq})
	}
	var got []*bus.Msg
	err := bus.NewFetcher(a.conn, stream, bus.FetchConfig{}).Fetch(ctx, want, func(seq uint64, hdr nats.Header, data []byte) error {
		got = append(got, &bus.Msg{Seq: seq, Header: hdr, Data: data, Subject: hdr.Get("Nats-Subject")})
		return nil
	})
	if err != nil && !errors.Is(err, bus.ErrNotFound) && !errors.Is(err, bus.ErrMalformed) {
		return err
	}
	slices.SortFunc(got, func(a, b *bus.Msg) int { return int(a.Seq) - int(b.Seq) })
	for _, m := range got {
		m.Time, _ = time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
		if err := fn(m); err != nil {
			return err
		}
	}
	return nil
}

// record is one message of the ledger.
type record struct {
	seq     uint64
	skipped uint64
	entry   *subjects.Entry
	raw     []byte
	err     error
}

func (a *auditor) readLedger(ctx context.Context, out chan<- record) error {
	last := a.cut.ledger.LastSeq
	next, err := a.read(ctx, subjects.Ledger, &a.cut.ledger, func(m *bus.Msg) error {
		r := record{seq: m.Seq, skipped: m.Skipped, entry: &subjects.Entry{}, raw: m.Data}
		r.err = subjects.DecodeMessage(m.Data, r.entry)
		return send(ctx, out, r)
	})
	if err == nil && next <= last {
		err = send(ctx, out, record{seq: last + 1, skipped: last + 1 - next})
	}
	return err
}

// event is one message of WEIGHTS.
type event struct {
	*bus.Msg
	seq, skipped uint64
}

func (a *auditor) readWeights(ctx context.Context, out chan<- event) error {
	last := a.cut.weights.LastSeq
	next, err := a.read(ctx, subjects.Weights, &a.cut.weights, func(m *bus.Msg) error { return send(ctx, out, event{m, m.Seq, m.Skipped}) })
	if err == nil && next <= last {
		err = send(ctx, out, event{nil, last + 1, last + 1 - next})
	}
	return err
}

func send[T any](ctx context.Context, ch chan<- T, v T) error {
	select {
	case ch <- v:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// source is a stream with a look at its next element.
type source[T any] struct {
	in   <-chan T
	next T
	has  bool
}

// peek is the next element; false at the end.
func (s *source[T]) peek() (T, bool) {
	if !s.has {
		s.next, s.has = <-s.in
	}
	return s.next, s.has
}

func (s *source[T]) take() { s.has = false }
