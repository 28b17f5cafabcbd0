package export

import (
	"context"
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Writer takes the records of a run, in order. A record is its own to keep.
type Writer interface {
	// Write takes the next one; at is where it lies in ROLLOUTS.
	Write(r *Record, at subjects.Address) error
	// Close finishes what is written.
	Close() error
}

// Counts is what an export met.
type Counts struct {
	// Trajectories were written; Filtered were not chosen; Unreadable ones have a
	// body or an index entry that no trainer could use, as DEADLETTER says.
	Trajectories uint64 `json:"trajectories"`
	Filtered     uint64 `json:"filtered"`
	Unreadable   uint64 `json:"unreadable"`
	// Events were written: of an export of all, in the form that has them.
	Events uint64 `json:"events,omitempty"`
}

// HeaderOf is the header of a run's export. An imported run has that of the
// file it came from.
func HeaderOf(record *subjects.RunRecord) (*Header, error) {
	h := &Header{Version: Version, Run: record.Run, Tokenizer: record.Tokenizer, Recipe: record.Recipe}
	if len(record.Origin) > 0 {
		if err := readHeader(record.Origin, h); err != nil {
			return nil, fmt.Errorf("read the origin of run %s: %w", record.Run, err)
		}
	}
	return h, nil
}

// Read hands the trajectories of a run, as it is now, to w. It closes nothing.
func Read(ctx context.Context, c *bus.Conn, run subjects.Run, f Filter, w Writer) (Counts, error) {
	r := reader{filter: f, to: w, bodies: bus.NewFetcher(c, run.StreamName(subjects.Rollouts), bus.FetchConfig{})}
	var err error
	if r.fates, err = readFates(ctx, c, run); err == nil {
		err = readAll(ctx, c, run, subjects.Rollouts, func(m *bus.Msg) error { return r.message(ctx, m) })
	}
	if to, has := w.(EventWriter); err == nil && has && f.all() {
		r.counts.Events, err = events(ctx, c, run, to)
	}
	if err != nil {
		return r.counts, fmt.Errorf("export %s: %w", run, err)
	}
	return r.counts, nil
}

type reader struct {
	filter Filter
	fates  *fates
	bodies *bus.Fetcher
	to     Writer
	counts Counts
}

// message takes one message of ROLLOUTS.
func (r *reader) message(ctx context.Context, m *bus.Msg) error {
	if bus.IsPart(m.Header) {
		return nil // it comes with the last part
	}
	data, err := r.bodies.Whole(ctx, m)
	var b *bus.Bundle
	if err == nil {
		b, err = bus.OpenBundle(m.Seq, m.Header, data)
	}
	if errors.Is(err, bus.ErrMalformed) || errors.Is(err, bus.ErrNotFound) {
		r.counts.Unreadable += uint64(max(1, len(m.Header[subjects.HeaderIndex])))
		return nil
	}
	if err != nil {
		return err
	}
	for i := range b.Items {
		if err := r.item(b, i); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) item(b *bus.Bundle, i int) error {
	it, at := &b.Items[i], subjects.Address{Seq: b.Seq, Index: i}
	if it.Err != nil {
		r.counts.Unreadable++
		return nil
	}
	fate := r.fates.of(it.Entry.Group, at)
	if !r.filter.index(&it.Entry, fate) {
		r.counts.Filtered++
		return nil
	}
	body := b.Body(i)
	if _, err := subjects.Inspect(body, &it.Entry, 0); err != nil {
		r.counts.Unreadable++
		return nil
	}
	t, err := subjects.DecodeTrajectory(body)
	if err != nil {
		r.counts.Unreadable++
		return nil
	}
	if !among(r.filter.Producers, t.Producer) {
		r.counts.Filtered++
		return nil
	}
	r.counts.Trajectories++
	if err := r.to.Write(newRecord(t, fate), at); err != nil {
		return fmt.Errorf("write trajectory %s: %w", t.ID(), err)
	}
	return nil
}
