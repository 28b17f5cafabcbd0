package show

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// NameProducers says of letters who published what they are about, where they do
// not say it themselves: from ROLLOUTS, as far as it goes back.
func NameProducers(ctx context.Context, c *bus.Conn, run subjects.Run, letters []Filed) error {
	names := map[uint64]string{} // by sequence
	for i := range letters {
		if l := &letters[i]; l.Producer == "" && l.Source == run.StreamName(subjects.Rollouts) && l.Sequence > 0 {
			names[l.Sequence] = ""
		}
	}
	if len(names) == 0 {
		return nil
	}
	if err := publishers(ctx, c, run, names); err != nil {
		return err
	}
	for i := range letters {
		if l := &letters[i]; l.Producer == "" && l.Source == run.StreamName(subjects.Rollouts) {
			l.Producer = names[l.Sequence]
		}
	}
	return nil
}

// A few messages far from each other are asked for one by one, others found by
// reading the headers from the first to the last.
const (
	fewMessages = 1 << 10
	farApart    = 64
)

// publishers says who published some messages of ROLLOUTS.
func publishers(ctx context.Context, c *bus.Conn, run subjects.Run, names map[uint64]string) error {
	seqs := slices.Sorted(maps.Keys(names))
	first, last := seqs[0], seqs[len(seqs)-1]
	state, err := bus.StreamState(ctx, c, run, subjects.Rollouts)
	if err != nil || state.Msgs == 0 || last < state.FirstSeq || first > state.LastSeq {
		return err
	}
	prefix := run.RolloutSubject("")
	if len(seqs) > fewMessages || last-first < farApart*uint64(len(seqs)) {
		return headers(ctx, c, run, max(first, state.FirstSeq), min(last, state.LastSeq), func(m *bus.HeaderMsg) {
			if _, wanted := names[m.Seq]; wanted {
				names[m.Seq] = strings.TrimPrefix(m.Subject, prefix)
			}
		})
	}
	var want []bus.SeqSize
	for _, seq := range seqs {
		want = append(want, bus.SeqSize{Seq: seq})
	}
	err = bus.NewFetcher(c, run.StreamName(subjects.Rollouts), bus.FetchConfig{}).Fetch(ctx, want, func(seq uint64, hdr nats.Header, _ []byte) error {
		names[seq] = strings.TrimPrefix(hdr.Get("Nats-Subject"), prefix)
		return nil
	})
	if errors.Is(err, bus.ErrNotFound) || errors.Is(err, bus.ErrMalformed) {
		return nil // what is gone, or cannot be put together, names nobody
	}
	return err
}

// headers hands the headers of ROLLOUTS from a sequence to another to fn.
func headers(ctx context.Context, c *bus.Conn, run subjects.Run, from, to uint64, fn func(*bus.HeaderMsg)) error {
	err := bus.EachHeaders(ctx, c, run.StreamName(subjects.Rollouts), "", from, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			if fn(&msgs[i]); msgs[i].Seq >= to {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
