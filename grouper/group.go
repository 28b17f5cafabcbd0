package grouper

import (
	"cmp"
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
	// members hold one trajectory a slot, spares further ones of filled slots
	// (an inspector may yet reject the first), both in the order of the log.
	members, spares []subjects.Member
	unused          int
	came            []arrived // attempts of which something has come, in the order of the log
}

// arrived names an attempt at a slot: what has come once.
type arrived uint32

func attemptAt(s subjects.Slot, a subjects.Attempt) arrived { return arrived(s)<<16 | arrived(a) }

// comes notes that something came of an attempt; false if something had before.
func (g *group) comes(s subjects.Slot, a subjects.Attempt) bool {
	at := attemptAt(s, a)
	if slices.Contains(g.came, at) {
		return false
	}
	if g.came == nil {
		g.came = make([]arrived, 0, len(g.slots))
	}
	g.came = append(g.came, at)
	return true
}

type slotState uint8

// The states of a slot's newest attempt. Whether the slot is filled is apart
// from them: by an older attempt, or by one that may yet be rejected.
const (
	waiting slotState = iota // handed out
	failed                   // to be handed out again
	dead                     // failed for good
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
	filled  bool
}

// lose notes that an attempt came to nothing; it reports whether that changed
// the slot: an older attempt no longer matters.
func (s *slot) lose(a subjects.Attempt, why cause, retries int) (changed bool) {
	if int(a) < int(s.attempt) {
		return false
	}
	if s.cause = max(s.cause, why); s.state != waiting {
		return false
	}
	if s.state = failed; int(s.attempt) >= retries {
		s.state = dead
	}
	return true
}

// pending reports whether the slot may still fill.
func (s *slot) pending() bool { return !s.filled && s.state != dead }

// recount sets how many slots may still fill.
func (g *group) recount() {
	g.pending = 0
	for i := range g.slots {
		if g.slots[i].pending() {
			g.pending++
		}
	}
}

// holds finds the trajectory of a slot.
func holds(members []subjects.Member, s subjects.Slot) int {
	return slices.IndexFunc(members, func(m subjects.Member) bool { return m.Slot == s })
}

// place finds where an address is, or belongs, in members.
func place(members []subjects.Member, a subjects.Address) (at int, found bool) {
	return slices.BinarySearchFunc(members, a, func(m subjects.Member, a subjects.Address) int {
		return cmp.Or(cmp.Compare(m.Seq, a.Seq), cmp.Compare(m.Index, a.Index))
	})
}

func address(m *subjects.Member) subjects.Address {
	return subjects.Address{Seq: m.Seq, Index: m.Index}
}

// add makes a trajectory the member of its slot.
func (g *group) add(m subjects.Member) {
	at, _ := place(g.members, address(&m))
	g.members = slices.Insert(g.members, at, m)
	if g.slots != nil {
		g.slots[m.Slot].filled = true
		g.recount()
	}
}

// take removes the member at a place and makes the first spare of its slot the
// new one, if there is one.
func (g *group) take(at int) (replaced bool) {
	s := g.members[at].Slot
	g.members = slices.Delete(g.members, at, at+1)
	if g.slots != nil {
		g.slots[s].filled = false
		g.recount()
	}
	i := holds(g.spares, s)
	if i < 0 {
		return false
	}
	m := g.spares[i]
	g.spares = slices.Delete(g.spares, i, i+1)
	g.add(m)
	return true
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

// has reports whether the slot is filled.
func (g *group) has(s subjects.Slot) bool {
	if int(s) < len(g.slots) {
		return g.slots[s].filled
	}
	return holds(g.members, s) >= 0
}
