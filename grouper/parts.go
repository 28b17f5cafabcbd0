package grouper

import (
	"slices"

	"github.com/headrace/headrace/subjects"
)

// A body over the bus's largest message travels in parts. The early ones lie
// below the message that names them, perhaps far below; what is purged up to a
// watermark must not take them away.

// early is an early part whose message has not come.
type early struct {
	_msgpack struct{} `msgpack:",as_array"` //nolint:unused // read by the encoder

	Seq      uint64
	At       int64
	Producer string
}

// maxEarly bounds the early parts that are waited for; the oldest are given up.
const maxEarly = 1 << 14

// arriveEarly notes an early part.
func (c *Core) arriveEarly(seq uint64, at int64, producer string) {
	c.early = append(c.early, early{Seq: seq, At: at, Producer: c.intern(producer)})
	if len(c.early) > maxEarly {
		c.early = c.early[1:]
	}
}

// giveUpEarly forgets early parts whose message would come too late for its group.
func (c *Core) giveUpEarly(now int64) {
	for len(c.early) > 0 && now-c.early[0].At > int64(c.cfg.GroupDeadline) {
		c.early = c.early[1:]
	}
}

// joined notes that the message of early parts has come, and returns the first
// sequence that reading it needs. Whoever lists what are no parts of its own holds
// nothing back.
func (c *Core) joined(seq uint64, a *subjects.Admission) (first uint64) {
	first = seq
	if len(a.Parts) == 0 {
		return first
	}
	c.early = slices.DeleteFunc(c.early, func(e early) bool {
		if _, listed := slices.BinarySearch(a.Parts, e.Seq); !listed || e.Producer != a.Producer {
			return false
		}
		first = min(first, e.Seq)
		return true
	})
	return first
}

// needs holds the watermark of a group or round at a sequence.
func (c *Core) needs(l *lifetime, seq uint64) {
	switch {
	case l.first == 0:
		l.first = seq
		c.watch(l)
	case seq < l.first:
		c.watched = slices.DeleteFunc(c.watched, func(w *lifetime) bool { return w == l })
		l.first = seq
		c.watch(l)
	}
}
