package audit

import (
	"github.com/headrace/headrace/subjects"
)

// window are the bundles that a later entry of the ledger may name, in order.
type window struct {
	bundles []*bundle
	low     uint64               // nothing below it is needed
	first   map[attempted]uint64 // sequence of the first that came of an attempt
}

// attempted names an attempt at a slot.
type attempted struct {
	group   subjects.GroupID
	slot    subjects.Slot
	attempt subjects.Attempt
}

func attemptOf(e *subjects.IndexEntry) attempted { return attempted{e.Group, e.Slot, e.Attempt} }

func (w *window) add(b *bundle) {
	if len(b.items) > 0 {
		w.bundles = append(w.bundles, b)
	}
}

// came notes a trajectory and reports whether one of the same attempt came
// before, so that this one counts for nothing.
func (w *window) came(seq uint64, it *item) bool {
	if it.err != nil {
		return false
	}
	if w.first == nil {
		w.first = map[attempted]uint64{}
	}
	at := attemptOf(&it.entry)
	if _, before := w.first[at]; before {
		return true
	}
	w.first[at] = seq
	return false
}

// drop forgets what lies below a sequence.
func (w *window) drop(below uint64) {
	w.low = max(w.low, below)
	n := 0
	for n < len(w.bundles) && w.bundles[n].seq < below {
		for i := range w.bundles[n].items {
			if at := attemptOf(&w.bundles[n].items[i].entry); w.first[at] == w.bundles[n].seq {
				delete(w.first, at)
			}
		}
		w.bundles[n] = nil
		n++
	}
	w.bundles = w.bundles[n:]
}

// find is the trajectory at an address; nil if the window has none.
func (w *window) find(seq uint64, index int) *item {
	low, high := 0, len(w.bundles)
	for low < high {
		if mid := (low + high) / 2; w.bundles[mid].seq < seq {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == len(w.bundles) || w.bundles[low].seq != seq || index < 0 || index >= len(w.bundles[low].items) {
		return nil
	}
	return &w.bundles[low].items[index]
}
