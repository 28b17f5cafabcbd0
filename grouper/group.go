package grouper

import (
	"slices"

	"github.com/headrace/headrace/subjects"
)

// lifetime is the part of groups and rounds that timers and the watermark look at.
type lifetime struct {
	order  uint64 // of opening, over groups and rounds
	opened int64
	clock  int64  // when it began to be played; 0: not yet
	first  uint64 // ROLLOUTS sequence of its first trajectory; 0: none yet
	gone   bool   // needs its trajectories no more
}

// due reports whether the deadline, counted from the clock's start, has passed.
func (l *lifetime) due(now, deadline int64) bool { return l.clock > 0 && now >= l.clock+deadline }

// group is a group that is open or waits for its batch.
type group struct {
	lifetime
	id      subjects.GroupID
	ordinal uint64
	env     int    // in the mix
	name    string // of the environment, once a trajectory said it
	slots   []slot // nil for external groups
	pending int    // slots that may still fill
	members []subjects.Member
	unused  int
}

type slotState uint8

const (
	waiting slotState = iota // handed out
	failed                   // to be handed out again
	dead                     // failed for good
	filled
)

// cause is why a slot failed.
type cause uint8

const (
	causeNone cause = iota
	causeFailed
	causeAborted
	causeRejected
	causeTimeout
)

var causes = [...]string{"", "failed", "aborted", "rejected by the inspector", "nothing came of it in time"}

func causeOf(s subjects.Status) cause {
	if s == subjects.Aborted {
		return causeAborted
	}
	return causeFailed
}

type slot struct {
	issued  int64
	attempt int16
	state   slotState
	cause   cause
}

// lose notes that an attempt came to nothing and reports whether the slot is
// to be handed out again; changed is false if that attempt no longer matters.
func (s *slot) lose(a subjects.Attempt, why cause, retries int) (changed bool) {
	if s.state != waiting || int(a) < int(s.attempt) {
		return false
	}
	s.cause = why
	if s.state = failed; int(s.attempt) >= retries {
		s.state = dead
	}
	return true
}

func (g *group) set(s *slot, to slotState) {
	before, after := s.state == waiting || s.state == failed, to == waiting || to == failed
	if before && !after {
		g.pending--
	} else if after && !before {
		g.pending++
	}
	s.state = to
}

// has reports whether the slot is filled.
func (g *group) has(s subjects.Slot) bool {
	if int(s) < len(g.slots) {
		return g.slots[s].state == filled
	}
	return slices.ContainsFunc(g.members, func(m subjects.Member) bool { return m.Slot == s })
}

// remove takes the member of a slot out again.
func (g *group) remove(s subjects.Slot) bool {
	n := len(g.members)
	g.members = slices.DeleteFunc(g.members, func(m subjects.Member) bool { return m.Slot == s })
	return len(g.members) < n
}

func (g *group) tokens() (n int) {
	for i := range g.members {
		n += g.members[i].Tokens
	}
	return n
}

// oldest is the oldest policy version that sampled the group.
func (g *group) oldest() subjects.PolicyVersion {
	v := subjects.NoVersion
	for i := range g.members {
		if m := g.members[i].MinVersion; m != subjects.NoVersion && (v == subjects.NoVersion || m < v) {
			v = m
		}
	}
	return v
}

// staleness of a version at a step, in optimizer steps.
func staleness(step subjects.Step, v subjects.PolicyVersion) int64 {
	if v == subjects.NoVersion {
		return 0
	}
	return max(0, int64(step)-1-int64(v))
}

func byOrder(a, b *group) int {
	if a.order < b.order {
		return -1
	}
	return 1
}

// closedSet remembers the newest external groups that closed, so that late
// trajectories do not open them again.
type closedSet struct {
	ring []uint64
	at   int
	in   map[uint64]struct{}
}

const closedMemory = 4096

func hashID(id subjects.GroupID) uint64 { // FNV-1a
	h := uint64(14695981039346656037)
	for i := 0; i < len(id); i++ {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return h
}

func (s *closedSet) has(id subjects.GroupID) bool { _, ok := s.in[hashID(id)]; return ok }

func (s *closedSet) add(h uint64) {
	if s.in == nil {
		s.in = map[uint64]struct{}{}
	}
	if len(s.ring) < closedMemory {
		s.ring = append(s.ring, h)
	} else {
		delete(s.in, s.ring[s.at])
		s.ring[s.at] = h
		s.at = (s.at + 1) % closedMemory
	}
	s.in[h] = struct{}{}
}

// oldestFirst is the set in the order it was filled.
func (s *closedSet) oldestFirst() []uint64 {
	return append(slices.Clone(s.ring[s.at:]), s.ring[:s.at]...)
}
