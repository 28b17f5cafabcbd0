package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// What is fetched at once: bodies of so many bytes, of so many messages.
const (
	windowBytes    = 16 << 20
	windowMessages = 256
)

// Read hands the chosen trajectories of a run to fn with their bodies, in the
// order of the log, up to what is its end now. fn may keep them.
func Read(ctx context.Context, c *bus.Conn, run subjects.Run, f Filter, fn func(*Record) error) error {
	if err := f.Validate(); err != nil {
		return err
	}
	state, err := bus.StreamState(ctx, c, run, subjects.Rollouts)
	if err != nil {
		return err
	}
	r := reader{ctx: ctx, filter: &f, fn: fn, fetch: bus.NewFetcher(c, run.StreamName(subjects.Rollouts), bus.FetchConfig{})}
	first, last := max(f.First, state.FirstSeq, 1), state.LastSeq
	if f.Last > 0 {
		last = min(last, f.Last)
	}
	if !f.Steps.Any() {
		if r.steps, err = trained(ctx, c, run, f.Steps); err != nil {
			return err
		}
		low, high := r.steps.bounds()
		if low < state.FirstSeq {
			return fmt.Errorf("steps %d to %d trained on rollouts from %d on, of which those below %d are purged: ask for later steps", f.Steps.From, f.Steps.To, low, state.FirstSeq)
		}
		first, last = max(first, low), min(last, high)
	}
	if state.Msgs == 0 || first > last {
		return nil
	}
	if f.takesAll() {
		return r.whole(c, run.StreamName(subjects.Rollouts), first, last)
	}
	err = bus.EachHeaders(ctx, c, run.StreamName(subjects.Rollouts), "", first, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			if msgs[i].Seq <= last {
				if err := r.message(&msgs[i]); err != nil {
					return err
				}
			}
			if msgs[i].Seq >= last || !f.Until.IsZero() && !msgs[i].Time.Before(f.Until) {
				return errEnd
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnd) {
		return err
	}
	return r.flush()
}

// whole reads the log from first to last in one pass: where no header chooses,
// bodies come along with them, and the server looks up nothing twice.
func (r *reader) whole(c *bus.Conn, stream string, first, last uint64) error {
	err := bus.Each(r.ctx, c, stream, "", first, func(m *bus.Msg) error {
		if m.Seq <= last && !bus.IsPart(m.Header) { // a part comes with the last one
			if err := r.bundle(m); err != nil {
				return err
			}
		}
		if m.Seq >= last || !r.filter.Until.IsZero() && !m.Time.Before(r.filter.Until) {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// bundle hands over the records of a message that came with its body.
func (r *reader) bundle(m *bus.Msg) error {
	var records []*Record
	recordsOf(r.filter, nil, m.Seq, m.Time, m.Header, func(rec *Record) { records = append(records, rec) })
	if len(records) == 0 {
		return nil
	}
	var b *bus.Bundle
	data, err := r.fetch.Whole(r.ctx, m)
	if err == nil {
		b, err = bus.OpenBundle(m.Seq, m.Header, data)
	}
	if err != nil && !errors.Is(err, bus.ErrNotFound) && !errors.Is(err, bus.ErrMalformed) {
		return err
	}
	for _, rec := range records {
		if rec.Err = err; err == nil {
			rec.fill(b)
		}
		if err := r.fn(rec); err != nil {
			return err
		}
	}
	return nil
}

// reader gathers chosen records, then fetches their messages together.
type reader struct {
	ctx    context.Context
	filter *Filter
	steps  stepOf
	fetch  *bus.Fetcher
	fn     func(*Record) error

	records []*Record
	want    []bus.SeqSize
	bytes   int
}

func (r *reader) message(m *bus.HeaderMsg) error {
	n := len(r.records)
	recordsOf(r.filter, r.steps, m.Seq, m.Time, m.Header, func(rec *Record) { r.records = append(r.records, rec) })
	if len(r.records) == n {
		return nil
	}
	r.want = append(r.want, bus.SeqSize{Seq: m.Seq, Size: m.Size})
	r.bytes += m.Size
	parted := len(m.Header[subjects.HeaderParts]) > 0 // much larger than it says
	if parted || r.bytes >= windowBytes || len(r.want) >= windowMessages {
		return r.flush()
	}
	return nil
}

// flush fetches what was gathered and hands it over in order.
func (r *reader) flush() error {
	if len(r.want) == 0 {
		return nil
	}
	err := r.fetch.Fetch(r.ctx, r.want, func(seq uint64, hdr nats.Header, data []byte) error {
		b, err := bus.OpenBundle(seq, hdr, data)
		for _, rec := range r.of(seq) {
			if rec.Err = err; err == nil {
				rec.fill(b)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, bus.ErrNotFound) && !errors.Is(err, bus.ErrMalformed) {
		return err
	}
	for _, rec := range r.records {
		if rec.Body == nil && rec.Err == nil {
			rec.Err = err // of those that did not come
		}
		if err := r.fn(rec); err != nil {
			return err
		}
	}
	r.records, r.want, r.bytes = nil, r.want[:0], 0
	return nil
}

// of are the gathered records of a message; they lie in order.
func (r *reader) of(seq uint64) []*Record {
	from, _ := slices.BinarySearchFunc(r.records, seq, func(rec *Record, seq uint64) int { return cmp.Compare(rec.Seq, seq) })
	to := from
	for to < len(r.records) && r.records[to].Seq == seq {
		to++
	}
	return r.records[from:to]
}
