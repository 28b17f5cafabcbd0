package index

import (
	"math"
	"slices"
)

// from is the place of the first message with that sequence or a later one.
func (x *Index) from(seq uint32) int {
	i, _ := slices.BinarySearchFunc(x.messages, seq, func(m message, s uint32) int {
		switch {
		case m.seq < s:
			return -1
		case m.seq > s:
			return 1
		}
		return 0
	})
	return i
}

// forget drops the oldest quarter of the rows, and groups that have none left and
// are closed, or are the oldest of too many.
func (x *Index) forget() {
	cut := uint32(0)
	if len(x.messages) > 0 {
		cut = x.messages[len(x.messages)/4].seq
	}
	tooMany := len(x.groups) > mostGroups
	oldRows, oldSigns, oldGroups, before := x.rows, x.signs, x.groups, x.rows.n-x.dead
	x.rows, x.signs, x.groups, x.by, x.dead = blocks[row]{}, signatures{most: oldSigns.most}, nil, make(map[string]uint32, len(oldGroups)), 0
	x.headed, x.orphans = 0, 0
	kept := make([]uint32, len(oldGroups)) // new places, plus one
	for i := range oldGroups {
		g := oldGroups[i]
		if g.newest < cut && (g.closed > 0 || g.outcome == evaluated || tooMany && i < len(oldGroups)/4) {
			continue
		}
		g.first, g.last, g.arrived = 0, 0, 0
		x.by[g.id] = uint32(len(x.groups))
		x.groups = append(x.groups, g)
		kept[i] = uint32(len(x.groups))
	}
	seq, m := uint32(math.MaxUint32), 0
	messages := x.messages
	x.messages = nil
	for i := range uint32(oldRows.n) {
		if i%blockRows == 0 && i > 0 {
			oldRows.all[i/blockRows-1] = nil
		}
		r := *oldRows.at(i)
		if r.is(isDead) || r.seq < cut || kept[r.group] == 0 {
			continue
		}
		for m < len(messages) && messages[m].seq < r.seq {
			m++
		}
		if r.seq != seq && m < len(messages) && messages[m].seq == r.seq && !r.is(ledgerRow) {
			x.messages = append(x.messages, message{r.seq, messages[m].size, uint32(x.rows.n), uint32(x.headed)})
			seq = r.seq
		}
		if r.is(ledgerRow) {
			x.orphans++
		} else {
			x.headed++
		}
		r.group, r.next = kept[r.group]-1, 0
		x.link(r)
		x.signs.move(&oldSigns, i, uint32(x.rows.n-1))
	}
	for i := range x.groups {
		x.sum(&x.groups[i])
	}
	x.forgotten += uint64(before - x.rows.n)
	x.epoch++
}
