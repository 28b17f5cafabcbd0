package grouper

import (
	"fmt"

	"github.com/headrace/headrace/subjects"
)

// Record is a ledger entry and its sequence.
type Record struct {
	Seq   uint64
	Entry *subjects.Entry
}

// Replay rebuilds a core from the log. The caller notes the events in the
// order of their streams, and calls Before with the sequence of every ROLLOUTS
// message first; rejections are noted before all else.
type Replay struct {
	// Core is what is being rebuilt.
	Core *Core
	// Weights notes the events of WEIGHTS up to a sequence.
	Weights func(upTo uint64)

	entries []Record
}

// NewReplay starts a replay. records are the ledger's entries in order, from
// the last entry's snapshot on (see [subjects.Entry]), or all of them.
func NewReplay(cfg Config, supply Supply, records []Record, weights func(upTo uint64)) (*Replay, error) {
	r := &Replay{Weights: weights, entries: records}
	if len(records) > 0 && len(records[0].Entry.State) > 0 {
		first := records[0]
		core, err := Restore(cfg, supply, first.Entry.State, first.Seq)
		if err != nil {
			return nil, fmt.Errorf("ledger entry %d: %w", first.Seq, err)
		}
		r.Core, r.entries = core, records[1:]
		r.Core.applyEnd(first.Entry.End)
		return r, nil
	}
	core, err := New(cfg, supply)
	r.Core = core
	return r, err
}

// Before applies the entries that were decided before ROLLOUTS had a sequence.
func (r *Replay) Before(seq uint64) error {
	for len(r.entries) > 0 && r.entries[0].Entry.Rollouts < seq {
		next := r.entries[0]
		r.entries = r.entries[1:]
		r.Weights(next.Entry.Weights)
		r.Core.Folded(next.Entry.Rollouts)
		if err := r.Core.Apply(next.Entry, next.Seq); err != nil {
			return err
		}
	}
	return nil
}

// Done applies what is left: ROLLOUTS is folded up to the last entry's mark.
func (r *Replay) Done() error { return r.Before(^uint64(0)) }

// Left is the number of entries not applied yet.
func (r *Replay) Left() int { return len(r.entries) }
