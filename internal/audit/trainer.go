package audit

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// trainerLog follows the trainer: within an incarnation every step once and in
// order, between two of them back to what a checkpoint holds.
type trainerLog struct {
	*auditor
	incarnation int
	committed   subjects.Step
	started     bool                   // an incarnation was announced
	saved       map[subjects.Step]bool // checkpoints reported so far
	cutSteps    subjects.Step          // batches in the ledger so far
	beyond      []subjects.Step        // committed steps that the ledger did not have yet
	last        []byte                 // the commit before, as it came
	holes       bool
}

func newTrainerLog(a *auditor) *trainerLog {
	return &trainerLog{auditor: a, saved: map[subjects.Step]bool{0: true}}
}

func (t *trainerLog) hole() { t.holes = true }

func stepText(s subjects.Step) string { return strconv.FormatInt(int64(s), 10) }

// entry notes the batches there are to train.
func (t *trainerLog) entry(e *subjects.Entry) {
	for i := range e.Batches {
		t.cutSteps = max(t.cutSteps, e.Batches[i].Step)
	}
}

func (t *trainerLog) add(seq uint64, kind Kind, step subjects.Step, format string, args ...any) {
	if t.holes {
		return // an event may be the missing one
	}
	t.report.add(Discrepancy{Check: CheckTrainer, Kind: kind, Text: fmt.Sprintf("weights message %d: ", seq) + fmt.Sprintf(format, args...),
		Stream: t.stream(subjects.Weights), Seq: seq, Step: step})
}

func (t *trainerLog) event(m *bus.Msg) {
	switch m.Subject {
	case t.run.WeightsSubject(subjects.EventResumed):
		decode(t, m, t.resumed)
	case t.run.WeightsSubject(subjects.EventCommit):
		if bytes.Equal(m.Data, t.last) { // sent again after its answer was lost for longer than the bus remembers ids
			t.report.note(fmt.Sprintf("weights message %d is a second copy of the commit before it", m.Seq))
			return
		}
		t.last = m.Data
		decode(t, m, t.commit)
	case t.run.WeightsSubject(subjects.EventCheckpoint):
		decode(t, m, t.checkpoint)
	case t.run.WeightsSubject(subjects.EventVersion):
		decode(t, m, t.version)
	}
}

func decode[T any](t *trainerLog, m *bus.Msg, fn func(seq uint64, e *T)) {
	t.report.checked(CheckTrainer, 1)
	e := new(T)
	if err := subjects.DecodeMessage(m.Data, e); err != nil {
		t.add(m.Seq, Wrong, 0, "cannot be read: %v", err)
		return
	}
	fn(m.Seq, e)
}

func (t *trainerLog) resumed(seq uint64, e *subjects.ResumedEvent) {
	switch {
	case t.started && e.Incarnation != t.incarnation+1:
		t.add(seq, Wrong, e.Step, "the trainer's start %d follows start %d", e.Incarnation, t.incarnation)
	case e.Step > t.cutSteps:
		t.add(seq, Lost, e.Step, "the trainer resumed behind step %d; the ledger has no batch beyond step %d", e.Step, t.cutSteps)
	case !t.saved[e.Step]:
		t.report.note(fmt.Sprintf("the trainer's start %d resumed behind step %d, whose checkpoint it had saved when it, or the bridge, died before reporting it", e.Incarnation, e.Step))
	}
	t.incarnation, t.committed, t.started, t.holes = e.Incarnation, e.Step, true, false
}

func (t *trainerLog) commit(seq uint64, e *subjects.CommitEvent) {
	switch {
	case t.started && e.Incarnation != t.incarnation:
		if e.Incarnation > t.incarnation {
			t.add(seq, Wrong, e.Step, "step %d is committed by start %d of the trainer, which was not announced", e.Step, e.Incarnation)
		}
		return // of a trainer that was replaced: nobody listens to it
	case e.Step <= t.committed:
		t.add(seq, Duplicated, e.Step, "step %d is committed by start %d of the trainer, which has committed step %d", e.Step, e.Incarnation, t.committed)
	case e.Step > t.committed+1:
		t.add(seq, Lost, e.Step, "step %d is committed by start %d of the trainer after step %d: it skipped %d", e.Step, e.Incarnation, t.committed, e.Step-t.committed-1)
	}
	t.committed = e.Step
	if e.Step > t.cutSteps {
		t.beyond = append(t.beyond, e.Step)
	}
}

func (t *trainerLog) checkpoint(seq uint64, e *subjects.CheckpointEvent) {
	if e.Incarnation == t.incarnation && e.Step > t.committed {
		t.add(seq, Wrong, e.Step, "a checkpoint of step %d by a trainer that has committed %d", e.Step, t.committed)
	}
	t.saved[e.Step] = true
}

func (t *trainerLog) version(seq uint64, e *subjects.VersionEvent) {
	if e.Incarnation == t.incarnation && int64(e.Version) > int64(t.committed) {
		t.add(seq, Wrong, e.Step, "weights of version %d by a trainer that has committed step %d", e.Version, t.committed)
	}
}

// end reports commits of steps that the ledger never had, unless it has grown
// since the cut.
func (t *trainerLog) end(grown bool) {
	for _, step := range t.beyond {
		if step > t.cutSteps && !grown {
			t.add(t.cut.weights.LastSeq, Lost, step, "step %d was trained; the ledger ends with the batch of step %d", step, t.cutSteps)
		}
	}
}
