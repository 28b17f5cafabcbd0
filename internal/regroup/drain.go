package regroup

import "github.com/headrace/headrace/subjects"

// drain goes on after the end of the recording, as long as something that was
// recorded is still of use: the trainer applies each step when it is cut, and the
// clock moves only when nothing else does.
func (w *whatIf) drain() {
	for _, l := range w.letters {
		w.core.Reject(l.Address)
	}
	w.core.Inspected(w.marks.rollouts)
	for w.err == nil {
		if w.step() {
			continue
		}
		// Nothing follows now: perhaps when a version was waited for long enough,
		// or, if there is something held back, when a deadline has passed.
		w.now += int64(w.core.Config().VersionWait) + 1
		if w.step() {
			continue
		}
		if len(w.held) == 0 {
			return
		}
		had := len(w.held)
		w.now += int64(w.core.Config().GroupDeadline) + 1
		for w.step() { //nolint:revive // steps until nothing follows
		}
		if len(w.held) == had {
			return
		}
	}
}

// step decides once, or has the trainer apply a step; false: neither.
func (w *whatIf) step() bool {
	if e := w.core.Decide(w.now); e != nil {
		w.decided(e)
		return true
	}
	if w.cut <= w.applied {
		return false
	}
	w.commit(w.marks.weights, w.now, &subjects.CommitEvent{V: 1, Step: w.applied + 1, Incarnation: 1 << 30})
	return true
}
