package grouper

import "github.com/headrace/headrace/subjects"

// trainer is what WEIGHTS said of the trainer and of the engines.
type trainer struct {
	incarnation int
	committed   subjects.Step
	commitAt    int64
	announced   subjects.PolicyVersion // newest version in the shared store
	gap         int64                  // steps between announced versions
	served      subjects.PolicyVersion // newest version that an engine serves
}

func newTrainer() trainer {
	return trainer{announced: subjects.NoVersion, gap: 1, served: subjects.NoVersion}
}

// Commit notes that the trainer applied a step. seq is the event's sequence in
// WEIGHTS, at its time there.
func (c *Core) Commit(seq uint64, at int64, e *subjects.CommitEvent) {
	c.weights = seq
	if t := &c.trainer; e.Incarnation >= t.incarnation {
		t.incarnation, t.committed, t.commitAt = e.Incarnation, e.Step, c.moment(at)
	}
}

// Resumed notes that a trainer started from a checkpoint: the committed step
// may go back.
func (c *Core) Resumed(seq uint64, at int64, e *subjects.ResumedEvent) {
	c.weights = seq
	t := &c.trainer
	if e.Incarnation < t.incarnation {
		return
	}
	t.incarnation, t.committed, t.commitAt = e.Incarnation, e.Step, c.moment(at)
	t.announced = min(t.announced, subjects.PolicyVersion(e.Step))
	t.served = min(t.served, t.announced)
}

// Version notes that the weights of a version are there to be loaded.
func (c *Core) Version(seq uint64, e *subjects.VersionEvent) {
	c.weights = seq
	t := &c.trainer
	if e.Incarnation < t.incarnation {
		return
	}
	if t.announced != subjects.NoVersion && e.Version > t.announced {
		t.gap = int64(e.Version - t.announced)
	}
	t.announced = e.Version
}

// Ack notes what an engine serves.
func (c *Core) Ack(seq uint64, e *subjects.AckEvent) {
	c.weights = seq
	if t := &c.trainer; e.Error == "" && e.Incarnation >= t.incarnation {
		t.served = max(t.served, e.Version)
	}
}

// Weights notes an event of WEIGHTS that changes nothing here.
func (c *Core) Weights(seq uint64) { c.weights = seq }

// behind reports whether engines are about to serve newer weights than they
// do: a version is due after the commit, or is announced and not yet served.
func (c *Core) behind(now int64) bool {
	t := &c.trainer
	if t.announced == subjects.NoVersion || now >= t.commitAt+int64(c.cfg.VersionWait) {
		return false
	}
	expected := int64(t.committed)-int64(t.announced) >= t.gap
	loading := t.served != subjects.NoVersion && t.served < t.announced
	return expected || loading
}

// admitted is the step that admission counts from: the committed one, or that
// of the weights being served while newer ones are on their way.
func (c *Core) admitted(now int64) subjects.Step {
	t := &c.trainer
	if !c.behind(now) {
		return t.committed
	}
	v := t.announced
	if t.served != subjects.NoVersion {
		v = t.served
	}
	return min(t.committed, subjects.Step(v))
}
