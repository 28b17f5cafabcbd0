package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/headrace/headrace/subjects"
)

// counters follow what each producer says it published. A producer that starts
// again counts from 1: its lives are told apart by their names in Hr-Life, or
// by the 1. With Hr-Life a message says how many of its life were acknowledged
// as stored before it: so many must lie before it. Without, counters must be
// contiguous.
type counters struct {
	*auditor
	producers map[string]*producer
	holes     int // in the stream so far
}

type producer struct {
	name string
	life *life
	old  map[string]*life // named lives that are not the newest
	turn []string         // of old, oldest first
}

// life is one process of a producer.
type life struct {
	name    string
	highest uint64
	seen    uint64
	gaps    map[uint64]bool // counters below highest that have not come
	missing uint64          // reported
	holes   int             // of the stream, when it was last in order
	settles int             // messages until its count is known again, after a hole
}

// settling is how many messages of a life are taken as they come after a hole.
// Messages in flight together are stored in any order, so the hole may have had
// higher counters than the first ones after it. A publisher's window of 4 MiB,
// in bundles that are full at 64 trajectories or 256 KiB, holds fewer than these.
const settling = 1 << 10

// maxGaps bounds the counters a lie can make an audit remember.
const maxGaps = 1 << 16

func newCounters(a *auditor) *counters {
	return &counters{auditor: a, producers: map[string]*producer{}}
}

// hole notes that messages are missing from the stream, be it on purpose: it is
// reported already, and nothing follows from counters across it.
func (c *counters) hole() { c.holes++ }

func (c *counters) message(b *bundle) {
	if b.admission.Err != nil || b.admission.Producer == "" {
		return
	}
	c.report.checked(CheckProducers, 1)
	p := c.producers[b.admission.Producer]
	if p == nil {
		p = &producer{name: b.admission.Producer, old: map[string]*life{}}
		c.producers[b.admission.Producer] = p
	}
	counter, _ := strconv.ParseUint(b.header.Get(subjects.HeaderCounter), 10, 64)
	if counter == 0 {
		return // not ours to judge: the inspector rejects it
	}
	name, stored := subjects.ParseLife(b.header.Get(subjects.HeaderLife))
	l := c.lifeOf(p, name, counter)
	if l.holes != c.holes { // what is missing in between is the stream's loss
		l.after(c.holes)
	}
	switch {
	case l.settles > 0:
		c.report.unproven(CheckProducers, 1, "")
		l.settle(counter)
		return
	case name != "":
		c.acknowledged(p, l, b, stored)
	}
	l.contiguous(counter)
}

// lifeOf finds the life that a message is of.
func (c *counters) lifeOf(p *producer, name string, counter uint64) *life {
	l := p.life
	switch {
	case l == nil:
	case name != "" && l.name == name:
		return l
	case name != "" && p.old[name] != nil:
		return p.old[name] // two processes of one name
	case name == "" && l.name == "" && (counter != 1 || l.gaps[1]):
		return l
	}
	if l != nil {
		c.close(p, l)
		p.keep(l)
	}
	p.life = &life{name: name, gaps: map[uint64]bool{}, holes: c.holes}
	if c.holes > 0 {
		p.life.holes = -1
	}
	return p.life
}

// maxLives bounds the lives of a producer that are remembered.
const maxLives = 64

// keep remembers a life, lest it goes on.
func (p *producer) keep(l *life) {
	if l.name == "" || p.old[l.name] != nil {
		return
	}
	p.old[l.name] = l
	if p.turn = append(p.turn, l.name); len(p.turn) > maxLives {
		delete(p.old, p.turn[0])
		p.turn = p.turn[1:]
	}
}

// after begins anew behind a hole of the stream.
func (l *life) after(holes int) {
	l.holes, l.settles, l.missing = holes, settling, 0
	l.highest, l.seen = 0, 0
	clear(l.gaps)
}

// settle takes all below the highest counter as stored: it cannot be told
// which of them the hole had, nor which were given up before it.
func (l *life) settle(counter uint64) {
	l.settles--
	l.highest = max(l.highest, counter)
	l.seen = l.highest
}

// contiguous notes a counter.
func (l *life) contiguous(counter uint64) {
	switch {
	case counter > l.highest:
		for n := l.highest + 1; n < counter && len(l.gaps) < maxGaps; n++ {
			l.gaps[n] = true
		}
		l.highest = counter
		l.seen++
	case l.gaps[counter]:
		delete(l.gaps, counter)
		l.seen++
	}
}

// acknowledged wants as many messages of the life in the stream as were
// acknowledged when this one was sent.
func (c *counters) acknowledged(p *producer, l *life, b *bundle, stored uint64) {
	if have := l.seen + l.missing; stored > have {
		c.lost(p, b.seq, stored-have, fmt.Sprintf("producer %s had %d messages acknowledged before its message %s at %d; the stream has %d of them",
			p.name, stored, b.header.Get(subjects.HeaderCounter), b.seq, l.seen))
		l.missing += stored - have
	}
}

func (c *counters) lost(p *producer, seq, n uint64, text string) {
	c.report.add(Discrepancy{Check: CheckProducers, Kind: Lost, Count: int(n), Text: text, Stream: c.stream(subjects.Rollouts), Seq: seq})
}

// close reports what a life without a name never published.
func (c *counters) close(p *producer, l *life) {
	if l.name != "" || len(l.gaps) == 0 {
		return
	}
	first := slices.Min(slices.Collect(maps.Keys(l.gaps)))
	c.lost(p, 0, uint64(len(l.gaps)), fmt.Sprintf("producer %s counted to %d and %d messages are missing, message %d first", p.name, l.highest, len(l.gaps), first))
}

// end closes all lives.
func (c *counters) end() {
	for _, name := range slices.Sorted(maps.Keys(c.producers)) {
		if p := c.producers[name]; p.life != nil { // nil: it never counted
			c.close(p, p.life)
		}
	}
}
