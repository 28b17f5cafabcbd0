package index

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/subjects"
)

// Fetch reads the trajectories at some addresses and hands each to fn with its
// place in the list, or why it cannot be read.
type Fetch func(ctx context.Context, list []subjects.Address, fn func(int, *show.Body, error) error) error

// What is asked of bodies at once: a little at first, so that a page of what is
// everywhere comes at once.
const (
	firstBatch = 16
	laterBatch = 64
	patience   = 100 * time.Millisecond
)

// candidate is a trajectory that may have the words.
type candidate struct {
	place int // of its group in the order
	row   uint32
	at    subjects.Address
}

// finder is one search.
type finder struct {
	*Index
	q      *Query
	needle needle
	fetch  Fetch
	list   []place
	next   int // the first place that was not looked at
	now    int64
	epoch  int
	until  time.Time
}

// search goes through the groups in their order until the page is full, the time
// is over or all are seen.
func (x *Index) search(ctx context.Context, q *Query, limit int, fetch Fetch, budget time.Duration) (*Page, error) {
	s := finder{Index: x, q: q, needle: newNeedle(q.Text), fetch: fetch, until: time.Now().Add(budget)}
	x.mu.RLock()
	s.list, s.next, s.now = x.ordered(q)
	s.epoch = x.epoch
	x.mu.RUnlock()
	page := &Page{Groups: []Group{}}
	whole, size := s.next == 0, firstBatch
	for len(page.Groups) < limit && s.next < len(s.list) && time.Now().Before(s.until) {
		if err := s.batch(ctx, page, limit, size); err != nil {
			return nil, err
		}
		size = laterBatch
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	page.Indexed = x.stats()
	switch {
	case s.epoch != x.epoch:
	case s.next < len(s.list):
		last := place{math.Inf(-1), s.list[0].group} // before all
		if s.next > 0 {
			last = s.list[s.next-1]
		}
		page.Next = q.cursor(last, x.groups[last.group].id, s.now)
	case whole && page.Indexed.Text == page.Indexed.TextOf:
		n := len(page.Groups)
		page.Total = &n
	}
	return page, nil
}

// batch looks at the next groups and asks the bodies of those that may have it.
func (s *finder) batch(ctx context.Context, page *Page, limit, size int) error {
	found, end := s.candidates(size)
	if len(found) == 0 {
		s.next = end
		return nil
	}
	matches, looked, err := s.verify(ctx, found)
	if err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.epoch != s.Index.epoch {
		return errMoved
	}
	for i := 0; i < len(found); {
		place, match, all := found[i].place, (*string)(nil), true
		for ; i < len(found) && found[i].place == place; i++ {
			match, all = cmp.Or(match, matches[i]), all && looked[i]
		}
		if match == nil && !all { // the time is over: go on here
			s.next = max(s.next, place)
			return nil
		}
		s.next = place + 1
		if match == nil {
			continue
		}
		g := s.view(&s.groups[s.list[place].group], s.now)
		g.Match = *match
		if page.Groups = append(page.Groups, g); len(page.Groups) == limit {
			return nil
		}
	}
	s.next = end
	return nil
}

var errMoved = errors.New("the index has just forgotten its oldest part: search again")

// candidates are the trajectories that may have it, of whole groups from the next
// one on, and the place after the last group looked at.
func (s *finder) candidates(size int) (found []candidate, end int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	end = s.next
	if s.epoch != s.Index.epoch {
		return nil, len(s.list)
	}
	for ; end < len(s.list) && len(found) < size; end++ {
		g := &s.groups[s.list[end].group]
		s.each(g, func(i uint32, r *row) {
			if w := s.signs.of(i); w != nil && !r.is(isDead) && s.needle.may(w) {
				found = append(found, candidate{end, i, subjects.Address{Seq: uint64(r.seq), Index: int(r.index)}})
			}
		})
		if end%1024 == 0 && time.Now().After(s.until) {
			return found, end + 1
		}
	}
	return found, end
}

// verify reads the bodies of candidates: the pieces of text that match, and which
// could be looked at before the time was over.
func (s *finder) verify(ctx context.Context, found []candidate) (matches []*string, looked []bool, err error) {
	matches, looked = make([]*string, len(found)), make([]bool, len(found))
	list := make([]subjects.Address, len(found))
	for i := range found {
		list[i] = found[i].at
	}
	until := s.until
	if len(list) <= firstBatch && s.next == 0 { // a search gets somewhere, however slow the disk is
		until = until.Add(patience)
	}
	timed, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	var mu sync.Mutex
	err = s.fetch(timed, list, func(i int, b *show.Body, err error) error {
		mu.Lock()
		defer mu.Unlock()
		looked[i] = true
		if err != nil {
			return nil //nolint:nilerr // purged or malformed: it has no text
		}
		if text, ok := s.needle.in(b.Trajectory); ok {
			matches[i] = &text
		}
		return nil
	})
	if timed.Err() != nil && ctx.Err() == nil {
		err = nil // what there was time for
	}
	return matches, looked, err
}
