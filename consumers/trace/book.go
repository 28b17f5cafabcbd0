package trace

import (
	"context"
	"slices"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// book is the part of the ledger that tells of the window: read once, and
// further back as far as somebody asks.
type book struct {
	*reader
	pages []*page // in order; entries that cannot be read are passed over: `headrace audit` is for that
	has   reach   // sequences read
	first uint64  // the ledger's first
}

// earlierMost bounds how many entries are read at once on the way back.
const earlierMost = 4096

// open reads what tells of the window: groups may close long after it.
func (b *book) open(ctx context.Context) error {
	of, err := b.reader.around(ctx, subjects.Ledger)
	if err != nil {
		return err
	}
	more, err := b.stored(ctx, subjects.Ledger, b.from-slack, b.to+patience)
	if err != nil {
		return err
	}
	of.Last = max(of.Last, min(more.Last, of.Last+mostEntries))
	return b.load(ctx, of)
}

// around reads what was stored from a time on up to another.
func (b *book) around(ctx context.Context, from, to int64) error {
	of, err := b.stored(ctx, subjects.Ledger, from, to)
	if err != nil {
		return err
	}
	return b.load(ctx, of)
}

// load reads a range beside what there is, so that there is no hole.
func (b *book) load(ctx context.Context, of reach) error {
	if b.first == 0 {
		state, err := bus.StreamState(ctx, b.conn, b.run, subjects.Ledger)
		if err != nil {
			return err
		}
		b.first, b.has = max(state.FirstSeq, 1), reach{of.First, of.First - 1}
	}
	before, err := b.turn(ctx, reach{max(of.First, b.first), b.has.First - 1})
	if err != nil {
		return err
	}
	after, err := b.turn(ctx, reach{b.has.Last + 1, of.Last})
	if err != nil {
		return err
	}
	b.pages = slices.Concat(before, b.pages, after)
	b.has = reach{min(b.has.First, max(of.First, b.first)), max(b.has.Last, of.Last)}
	return nil
}

// turn reads a range.
func (b *book) turn(ctx context.Context, of reach) (out []*page, err error) {
	err = b.each(ctx, subjects.Ledger, of, func(m *bus.Msg) {
		var e subjects.Entry
		if subjects.DecodeMessage(m.Data, &e) == nil {
			out = append(out, newPage(&e))
		}
	})
	return out, err
}

// earlier reads some more of what lies before; false: there is nothing.
func (b *book) earlier(ctx context.Context) (bool, error) {
	if b.has.First <= b.first {
		return false, nil
	}
	n := min(max(b.has.Last+1-b.has.First, 16), earlierMost, b.has.First-b.first)
	return true, b.load(ctx, reach{b.has.First - n, b.has.First - 1})
}

// batches hands over those of the steps, and reports whether the first is one.
func (b *book) batches(first, final subjects.Step, fn func(*cut)) (whole bool) {
	for _, p := range b.pages {
		for i := range p.batches {
			if x := &p.batches[i]; x.Step >= first && x.Step <= final {
				whole = whole || x.Step == first
				fn(x)
			}
		}
	}
	return whole
}

// find reads back until it has the batch of a step, or nothing is left.
func (b *book) find(ctx context.Context, step subjects.Step) error {
	for !b.batches(step, step, func(*cut) {}) {
		if more, err := b.earlier(ctx); !more || err != nil {
			return err
		}
	}
	return nil
}

// opened is when the first group opened that is trained in the steps; it reads
// back as far as that takes.
func (b *book) opened(ctx context.Context, first, final subjects.Step) (at int64, found bool, err error) {
	if err := b.find(ctx, first); err != nil {
		return 0, false, err
	}
	trained := map[subjects.GroupID]bool{}
	b.batches(first, final, func(x *cut) {
		found = true
		for _, g := range x.groups {
			trained[g] = true
		}
	})
	for {
		at, whole := b.oldest(trained)
		if whole {
			return at, found, nil
		}
		if more, err := b.earlier(ctx); !more || err != nil {
			return at, found, err
		}
	}
}

// oldest is when the first of the groups opened, and whether all are there.
func (b *book) oldest(groups map[subjects.GroupID]bool) (at int64, whole bool) {
	seen := map[subjects.GroupID]bool{}
	for _, p := range b.pages {
		for i := range p.verdicts {
			v := &p.verdicts[i]
			if !groups[v.Group] || !v.Outcome.Trained() {
				continue
			}
			seen[v.Group] = true
			if at == 0 || v.Opened < at {
				at = v.Opened
			}
		}
	}
	return at, len(seen) == len(groups)
}
