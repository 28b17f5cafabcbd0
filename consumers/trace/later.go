package trace

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const (
	// patience is how long after the window's end an episode is looked for that
	// began in it: a little more than an episode takes at most, if a recipe does
	// not say otherwise.
	patience = int64(11 * time.Minute)
	// mostLater bounds how many messages' headers are looked at for that,
	// mostEntries how many entries of the ledger, and mostBefore how many before
	// the window for what had been handed out.
	mostLater, mostEntries, mostBefore = 200_000, 1024, 256
)

// issued is what was handed out by some time. Tasks are numbered in the order in
// which they are, so an episode of a later one began later.
type issued struct {
	groups uint64        // training groups from 0 up to, not including, this
	step   subjects.Step // the newest that was committed by then
	known  bool          // else nobody says: groups come from outside
}

// add takes over what an entry of the ledger handed out.
func (s *issued) add(list []subjects.Issue) {
	for _, i := range list {
		if i.Kind == subjects.Train {
			s.groups, s.known = max(s.groups, i.First+uint64(max(i.Count, 0))), true
		}
		s.step = max(s.step, i.Step, i.Round)
	}
}

// may reports whether a message may hold an episode that had been handed out.
func (s *issued) may(h nats.Header) bool {
	for _, text := range h[subjects.HeaderIndex] {
		e, err := subjects.ParseIndex(text)
		if err != nil {
			continue
		}
		if e.Kind == subjects.Eval && e.Round <= s.step+1 { // which is handed out with that commit
			return true
		}
		n, err := strconv.ParseUint(string(e.Group[1:]), 10, 64)
		if e.Kind == subjects.Train && (err != nil || n < s.groups) {
			return true
		}
	}
	return false
}

// issued is what was handed out by a time; where the pages do not say, it looks
// back a little.
func (b *book) issued(ctx context.Context, by int64) (s issued, err error) {
	for whole := b.has.Last + 1 - b.has.First; ; {
		for _, p := range b.pages {
			if p.at <= by {
				s.add(p.issued)
			}
		}
		if s.known || b.has.Last+1-b.has.First >= whole+mostBefore {
			return s, nil
		}
		if more, err := b.earlier(ctx); !more || err != nil {
			return s, err
		}
	}
}

// find adds to the messages that are wanted those stored in the window, and of
// those that came later the ones that may tell of it.
func (r *reader) find(ctx context.Context) error {
	if r.copied {
		return nil // those of its batches
	}
	of, err := r.stored(ctx, subjects.Rollouts, r.from-slack, r.to+max(r.grace(), patience))
	if err != nil || of.Last < of.First {
		return err
	}
	in, err := r.stored(ctx, subjects.Rollouts, r.from-slack, r.to+slack)
	if err != nil {
		return err
	}
	var by issued
	if of.Last > in.Last {
		if by, err = r.book.issued(ctx, r.to+slack); err != nil {
			return err
		}
	}
	later, until := 0, time.Time{}
	err = bus.EachHeaders(ctx, r.conn, r.run.StreamName(subjects.Rollouts), "", of.First, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			m := &msgs[i]
			if m.Seq > in.Last {
				later++
			}
			if m.Seq > of.Last || later > mostLater {
				return errEnd
			}
			if until = m.Time; !bus.IsPart(m.Header) && r.wants(m, &by) {
				r.wanted[m.Seq] = max(len(m.Header[subjects.HeaderIndex]), 1)
			}
			if m.Seq == of.Last {
				return errEnd
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnd) {
		return err
	}
	return r.goesOn(ctx, until)
}

// wants reports whether a message may tell of the window.
func (r *reader) wants(m *bus.HeaderMsg, by *issued) bool {
	switch at := m.Time.UnixNano(); {
	case at <= r.to+slack:
		return true
	case !by.known:
		return at <= r.to+r.grace()
	}
	return by.may(m.Header)
}

// goesOn notes up to when it was looked for episodes, if more were played.
func (r *reader) goesOn(ctx context.Context, until time.Time) error {
	state, err := bus.StreamState(ctx, r.conn, r.run, subjects.Rollouts)
	if err == nil && state.LastTime.After(until) {
		r.report.Until = until.UTC()
	}
	return err
}
