package trainerbridge

import (
	"context"
	"errors"
	"math/bits"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// errSeen marks a trajectory whose attempt has come before: it counts for
// nothing, so nobody looks at its body.
var errSeen = errors.New("its attempt has come before")

// admit says what of a message is to be inspected: a place for each of its
// trajectories, those with an error are not. It costs headers alone: whatever is
// forged, or a copy, is turned away before a byte of its body is looked at.
func (in *inspector) admit(ctx context.Context, m *bus.Msg) ([]bus.Item, error) {
	a := in.gate.Admit(m.Subject, m.Header)
	if errors.Is(a.Err, subjects.ErrForged) {
		in.stats.forged.Add(int64(max(a.Refused, 1)))
		in.stats.forgedBytes.Add(int64(len(m.Data)))
		return nil, nil
	}
	if a.Err != nil {
		return nil, in.unreadable(ctx, m, a.Producer, bus.WholeMessage, a.Err)
	}
	fresh := 0
	items := make([]bus.Item, len(a.Arrivals))
	for i := range a.Arrivals {
		items[i] = bus.Item(a.Arrivals[i])
		switch {
		case items[i].Err != nil:
			if err := in.unreadable(ctx, m, a.Producer, i, items[i].Err); err != nil {
				return nil, err
			}
		case in.gate.Tokens() && !in.seen.add(items[i].Entry.Token):
			in.stats.copies.Add(1)
			items[i].Err = errSeen
		default:
			fresh++
		}
	}
	if fresh == 0 {
		return nil, nil
	}
	return items, nil
}

// turnedAway reports whether an item's error is of its admission: it counts for
// nothing already.
func turnedAway(err error) bool { return errors.Is(err, errSeen) || errors.Is(err, subjects.ErrIndex) }

// firstID names the first trajectory of a message that counts.
func firstID(items []bus.Item) string {
	for i := range items {
		if !turnedAway(items[i].Err) {
			return items[i].Entry.ID()
		}
	}
	return ""
}

// seen remembers which attempts have come, by their lease tokens: two
// generations of them, so that it stays small. What it has forgotten is inspected
// again, which harms nobody.
type seen struct{ young, old map[string]struct{} }

// seenMost is how many attempts a generation has.
const seenMost = 1 << 16

// add notes an attempt; false if it was there.
func (s *seen) add(token string) bool {
	if _, ok := s.young[token]; ok {
		return false
	}
	if _, ok := s.old[token]; ok {
		return false
	}
	if s.young == nil || len(s.young) >= seenMost {
		s.young, s.old = make(map[string]struct{}), s.young
	}
	s.young[string([]byte(token))] = struct{}{} // a copy: the header goes
	return true
}

// What nobody can read is buried at a bounded rate: the first lettersFirst of a
// producer, then whenever their number has doubled, each cut to letterMost bytes.
const (
	lettersFirst  = 100
	letterMost    = 64 << 10
	producersMost = 1024 // that are told apart
)

// unreadable counts a message, or an entry of one, of which nothing can be told.
func (in *inspector) unreadable(ctx context.Context, m *bus.Msg, producer string, item int, fault error) error {
	in.stats.unreadable.Add(1)
	if _, known := in.garbage[producer]; !known && len(in.garbage) >= producersMost {
		producer = ""
	}
	in.garbage[producer]++
	n := in.garbage[producer]
	if n > lettersFirst && bits.OnesCount64(n) > 1 {
		return nil
	}
	letter := in.letter(m, item, "", m.Data, fault)
	if len(letter.Data) > letterMost {
		letter.Data, letter.Bytes = letter.Data[:letterMost], len(m.Data)
	}
	return in.bury(ctx, letter)
}
