package index

import (
	"context"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// A long log is read from its start, which takes a while; who looks at it wants
// its end. So the end is read first, into an index of its own, which answers for
// what is newest until the whole is there.
const (
	longLog        = 20_000 // messages
	recentMessages = 4_000
	recentEntries  = 2_000
)

// peek reads the end of the log.
func (x *Index) peek(ctx context.Context, c *bus.Conn, rollouts, ledger, messages, entries uint64) error {
	y := New(x.cfg)
	err := upTo(ctx, 1, rollouts, func(seen func(uint64) error) error {
		return bus.EachHeaders(ctx, c, x.cfg.Run.StreamName(subjects.Rollouts), "", behind(rollouts, messages), func(msgs []bus.HeaderMsg) error {
			y.Messages(msgs)
			return seen(msgs[len(msgs)-1].Seq)
		})
	})
	if err != nil {
		return err
	}
	err = upTo(ctx, 1, ledger, func(seen func(uint64) error) error {
		return bus.Each(ctx, c, x.cfg.Run.StreamName(subjects.Ledger), "", behind(ledger, entries), func(m *bus.Msg) error {
			var e subjects.Entry
			if subjects.DecodeMessage(m.Data, &e) == nil {
				y.Entry(m.Seq, &e)
			}
			return seen(m.Seq)
		})
	})
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	y.purged = x.purged
	x.recent = y
	return nil
}

// behind is the sequence at which the last n begin.
func behind(last, n uint64) uint64 { return last - min(last, n) + 1 }

// upTo reads a stream from a sequence up to another, or to its end, if the server
// has lost what was there.
func upTo(ctx context.Context, from, last uint64, read func(seen func(uint64) error) error) error {
	if from > last {
		return nil
	}
	done := false
	err := read(func(seq uint64) error {
		if done = seq >= last; done {
			return context.Canceled // any error ends it
		}
		return nil
	})
	if done && ctx.Err() == nil {
		return nil
	}
	return err
}

// newest is a page of what is newest, as long as only the end of the log is known;
// nil for other queries, and once the whole is there.
func (x *Index) newest(q *Query, limit int) *Page {
	x.mu.RLock()
	y, stats := x.recent, x.stats()
	x.mu.RUnlock()
	if y == nil || q.Text != "" || q.Cursor != "" || q.Sort != "" && q.Sort != "newest" {
		return nil
	}
	page := y.list(q, limit)
	page.Indexed, page.Total = stats, nil // of the whole nothing is known yet
	return page
}

// Partial reports whether only the log's end is known yet.
func (x *Index) Partial() bool { return x.latest() != nil }

// latest is the index of the log's end, nil once the whole is there.
func (x *Index) latest() *Index {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.recent
}
