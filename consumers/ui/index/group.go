package index

import (
	"math"

	"github.com/headrace/headrace/subjects"
)

// group is what is kept of a group. Sums are over its members, while it has no
// verdict over what could become one.
type group struct {
	id             string
	opened, closed int64 // Unix nanoseconds; 0: not known, or not yet
	tokens         uint64
	first, last    uint32 // rows, plus one
	arrived        uint32
	members        uint32
	unused         uint32 // as the verdict counts them
	newest         uint32 // the highest sequence of its rows
	ledger         uint32 // sequence of its last verdict
	step           int32  // that trained on it; 0: none
	round          int32
	mean, std      float32
	minVersion     int32
	maxVersion     int32
	topSlot        uint16
	environment    uint16
	outcome        uint8
	statuses       uint8 // a bit for each that its trajectories have
	eval           bool
}

// What has no verdict of the ledger.
const (
	open      = 0
	evaluated = 1
)

var outcomes = []string{"open", "evaluated", string(subjects.Kept), string(subjects.Partial), string(subjects.ZeroVariance), string(subjects.Expired),
	string(subjects.TooFew), string(subjects.Stale), string(subjects.Cancelled), "other"}

var statuses = []subjects.Status{subjects.Succeeded, subjects.Truncated, subjects.Overlong, subjects.Failed, subjects.Aborted}

func number[T ~string](list []T, s T) uint8 {
	for i, v := range list {
		if v == s {
			return uint8(i)
		}
	}
	return uint8(len(list) - 1)
}

func trained(status uint8) bool { return statuses[status].Trained() }

// longChain is how many trajectories of a group are kept: an honest one has a few
// times its size.
const longChain = 1 << 10

// each walks a group's rows, in the order they came.
func (x *Index) each(g *group, fn func(uint32, *row)) {
	for i := g.first; i > 0; {
		r := x.rows.at(i - 1)
		fn(i-1, r)
		i = r.next
	}
}

// counts reports whether a row is one of those that a group is judged by.
func (g *group) counts(r *row) bool {
	if g.ledger > 0 {
		return r.is(isMember)
	}
	return trained(r.status) && !r.is(isDead)
}

// sum makes a group's sums again.
func (x *Index) sum(g *group) {
	g.tokens, g.statuses, g.members, g.minVersion, g.maxVersion, g.newest = 0, 0, 0, int32(subjects.NoVersion), int32(subjects.NoVersion), 0
	mean, squares := 0.0, 0.0
	x.each(g, func(_ uint32, r *row) {
		if r.is(isDead) {
			return
		}
		g.statuses |= 1 << r.status
		g.newest, g.topSlot = max(g.newest, r.seq), max(g.topSlot, r.slot)
		if !g.counts(r) {
			return
		}
		g.members++
		g.tokens += uint64(r.tokens)
		d := float64(r.reward) - mean
		mean += d / float64(g.members)
		squares += d * (float64(r.reward) - mean)
		if r.minVersion >= 0 && (g.minVersion < 0 || r.minVersion < g.minVersion) {
			g.minVersion = r.minVersion
		}
		g.maxVersion = max(g.maxVersion, r.maxVersion)
	})
	g.mean, g.std = float32(math.NaN()), float32(math.NaN())
	if g.members > 0 {
		g.mean, g.std = float32(mean), float32(math.Sqrt(squares/float64(g.members)))
	}
}
