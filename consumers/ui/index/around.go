package index

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// A group that somebody opens while the log is still being read lies anywhere in
// it. What opened it is found by halving, since groups are opened in the order of
// their numbers; from there to what became of it is little to read, into an index
// of its own.
const (
	mostLooked = 1 << 12 // entries that are looked at for one group
	mostAround = 1 << 13 // messages of ROLLOUTS that are read for it
	firstLook  = 4       // entries asked for at once, then four times as many, up to ...
	widestLook = 64
)

// Around is an index of what the log has of one group, nil if it cannot be found so:
// its name is not of those that are numbered, too much lies between, or the bus
// does not answer. Only what it says of this group is whole.
func (x *Index) Around(ctx context.Context, c *bus.Conn, id string) *Index {
	want, ok := x.wanted(id)
	if !ok {
		return nil
	}
	x.mu.RLock()
	y := x.around
	purged := x.purged
	x.mu.RUnlock()
	if y != nil && y.of == id && y.Decided(id) {
		return y
	}
	defer x.Ahead()()
	ledger, err := bus.StreamState(ctx, c, x.cfg.Run, subjects.Ledger)
	if err != nil {
		return nil
	}
	y = New(x.cfg)
	y.purged, y.of = purged, id
	s := seeker{fetcher: bus.NewFetcher(c, x.cfg.Run.StreamName(subjects.Ledger), bus.FetchConfig{WindowBytes: widestLook << 19}), wanted: want, last: ledger.LastSeq, left: mostLooked}
	from, to, ok := s.fold(ctx, y, max(ledger.FirstSeq, 1))
	if !ok || y.headers(ctx, c, from, to) != nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.caughtUp {
		x.around = y
	}
	return y
}

// headers folds the headers of ROLLOUTS in, from one sequence to another; 0: to the last.
func (x *Index) headers(ctx context.Context, c *bus.Conn, from, to uint64) error {
	rollouts, err := x.look(ctx, c)
	if err != nil {
		return err
	}
	from = max(from, rollouts.FirstSeq, 1)
	if to = min(to-1, rollouts.LastSeq-1, from+mostAround) + 1; to < from || rollouts.Msgs == 0 {
		return nil
	}
	return upTo(ctx, from, to, func(seen func(uint64) error) error {
		return bus.EachHeaders(ctx, c, x.cfg.Run.StreamName(subjects.Rollouts), "", from, func(msgs []bus.HeaderMsg) error {
			x.Messages(msgs)
			return seen(msgs[len(msgs)-1].Seq)
		})
	})
}

// Decided reports whether a group is known whose fate is, too.
func (x *Index) Decided(id string) bool {
	if y := x.latest(); y != nil && y.Decided(id) {
		return true
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, ok := x.by[id]
	return ok && x.groups[i].decided()
}

func (g *group) decided() bool {
	return g.step > 0 || g.outcome != open && !subjects.Outcome(outcomes[g.outcome]).Trained()
}

// wanted is a group that is looked for.
type wanted struct {
	id           string
	eval         bool
	number       uint64 // of a training group its ordinal, of an evaluation's its round
	environments uint64 // ordinals of each go up, and take turns
}

func (x *Index) wanted(id string) (w wanted, ok bool) {
	if strings.Contains(id, "/") || !ids.MatchString(id) {
		return w, false
	}
	round, _, eval := strings.Cut(id[1:], "-")
	n, err := strconv.ParseUint(round, 10, 64)
	return wanted{id: id, eval: eval, number: n, environments: uint64(max(x.cfg.Environments, 1))}, err == nil
}

// issued looks at what an entry opened: says whether it is of use for the search,
// whether the group was open by then, and whether it was opened just there.
func (w *wanted) issued(e *subjects.Entry) (says, reached, here bool) {
	for _, i := range e.Issued {
		count := uint64(max(i.Count, 0))
		switch {
		case w.eval: // all kinds say at which step they were opened
			says, reached = true, reached || uint64(i.Step) >= w.number
			here = here || i.Kind == subjects.Eval && uint64(i.Round) == w.number
		case i.Kind == subjects.Train && count > 0:
			last := i.First + count - 1
			back := (last%w.environments + w.environments - w.number%w.environments) % w.environments
			if back < count { // one of its environment is among them
				says, reached = true, reached || last-back >= w.number
				here = here || i.First <= w.number && w.number <= last
			}
		}
	}
	return says, reached, here
}

// seeker reads pieces of the ledger.
type seeker struct {
	wanted
	fetcher *bus.Fetcher
	last    uint64
	left    int
}

// fold reads a group's entries into y and says which messages of ROLLOUTS may be its.
func (s *seeker) fold(ctx context.Context, y *Index, first uint64) (from, to uint64, ok bool) {
	at := s.opened(ctx, first)
	if at == 0 {
		return 0, 0, false
	}
	err := s.walk(ctx, at, s.last, func(seq uint64, e *subjects.Entry) bool {
		if _, _, here := s.issued(e); !ok && !here {
			return true // rounds are issued a little after the step they are of
		}
		if !ok {
			from, ok = e.Rollouts+1, true
		}
		y.Entry(seq, e)
		i, known := y.by[s.id]
		if known && to == 0 && y.groups[i].outcome != open {
			to = e.Rollouts
		}
		return !known || !y.groups[i].decided()
	})
	return from, to, ok && err == nil
}

// opened is about the entry that opened the group, 0 if there is none.
func (s *seeker) opened(ctx context.Context, low uint64) (at uint64) {
	for high := s.last + 1; low < high; {
		middle := low + (high-low)/2
		var found uint64
		var reached bool
		err := s.walk(ctx, middle, high-1, func(seq uint64, e *subjects.Entry) bool {
			var says bool
			if says, reached, _ = s.issued(e); says {
				found = seq
			}
			return !says
		})
		switch {
		case err != nil:
			return 0
		case found == 0:
			high = middle
		case reached:
			high, at = middle, found
		default:
			low = found + 1
		}
	}
	return at
}

// walk hands the entries from one sequence to another to fn, in order, until it
// has enough.
func (s *seeker) walk(ctx context.Context, from, to uint64, fn func(uint64, *subjects.Entry) bool) error {
	for n := uint64(firstLook); from <= to; n = min(4*n, widestLook) {
		list, err := s.read(ctx, from, min(n, to-from+1))
		if err != nil {
			return err
		}
		for i := range list {
			if !fn(from+uint64(i), &list[i]) {
				return nil
			}
		}
		from += n
	}
	return nil
}

// read is some entries; those that cannot be read are empty.
func (s *seeker) read(ctx context.Context, from, n uint64) ([]subjects.Entry, error) {
	if s.left -= int(n); s.left < 0 {
		return nil, errFar
	}
	list, want := make([]subjects.Entry, n), make([]bus.SeqSize, n)
	for i := range want {
		want[i].Seq = from + uint64(i)
	}
	err := s.fetcher.Fetch(ctx, want, func(seq uint64, _ nats.Header, data []byte) error {
		var e subjects.Entry
		if subjects.DecodeMessage(data, &e) == nil {
			list[seq-from] = e
		}
		return nil
	})
	if errors.Is(err, bus.ErrNotFound) || errors.Is(err, bus.ErrMalformed) {
		err = nil
	}
	return list, err
}

var errFar = errors.New("too much lies between")
