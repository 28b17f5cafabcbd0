package regroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Options configure [Run].
type Options struct {
	// Policy to group by.
	Policy grouper.Config
	// Own is that of the run. Default: that of its record.
	Own *audit.Policy
	// Keep is how many groups with another fate are listed; all are counted. Default 20.
	Keep int
	// Each, when set, is called with each entry that the policy gives, in order.
	Each func(*subjects.Entry) error
}

// Run groups the rollouts of a run anew, as far as it has come. It audits the run
// on the way: what the recording says must be so before it is compared with.
func Run(ctx context.Context, conn *bus.Conn, run subjects.Run, o Options) (*Report, error) {
	if o.Own == nil {
		own, err := audit.PolicyOf(ctx, conn, run)
		if err != nil {
			return nil, err
		}
		o.Own = own
	}
	if o.Keep <= 0 {
		o.Keep = 20
	}
	if o.Own.Unknown != "" {
		return nil, fmt.Errorf("regroup %s: %s", run, o.Own.Unknown)
	}
	if was, is := o.Own.Grouper.WithDefaults().Source, o.Policy.WithDefaults().Source; was != is {
		return nil, &grouper.FieldError{Field: "source", Msg: fmt.Sprintf("%q: the recorded groups are from %s, and cannot be from elsewhere", is, was)}
	}
	if below, err := bus.Purged(ctx, conn, run); err != nil {
		return nil, fmt.Errorf("regroup %s: %w", run, err)
	} else if below > 1 {
		return nil, fmt.Errorf("regroup %s: its rollouts below %d are purged, and with them what its first groups were made of: regroup a run that kept them (trainer.checkpoint_keep, bus limits)", run, below)
	}
	core, err := grouper.New(o.Policy, o.Own.Supply)
	if err != nil {
		return nil, err
	}
	w := newWhatIf(run, core, o)
	a, err := audit.Run(ctx, conn, run, audit.Options{Policy: o.Own, Observer: w})
	if err == nil {
		err = w.err
	}
	if err != nil {
		return nil, fmt.Errorf("regroup %s: %w", run, err)
	}
	if !w.report.Own {
		w.drain()
	}
	w.report.Sound, w.report.Verdict = a.OK, a.Verdict
	return w.finish(), errors.Join(w.err, w.before.err, w.after.err)
}

// whatIf folds a recording into a core with another policy.
type whatIf struct {
	run  subjects.Run
	o    Options
	core *grouper.Core

	tasks    bool     // groups are issued
	letters  []letter // not noted yet, by sequence
	recorded *asked   // by the run
	wanted   *asked   // by this core
	held     []arrival
	commits  []commit
	seen     subjects.Step // newest step that the recorded trainer applied
	applied  subjects.Step // newest step that this core was told of
	cut      subjects.Step // newest batch of this core
	marks    struct{ rollouts, weights uint64 }
	now      int64

	before, after *account
	report        Report
	err           error
}

type letter struct {
	seq uint64
	subjects.Address
}

// arrival is a trajectory that this core did not ask for yet.
type arrival struct {
	subjects.Address
	entry subjects.IndexEntry
	seen  subjects.Step // by the recorded trainer, when it came
}

// commit is one of a step that this core has not cut yet.
type commit struct {
	seq   uint64
	event subjects.CommitEvent
}

func newWhatIf(run subjects.Run, core *grouper.Core, o Options) *whatIf {
	own := o.Own.Grouper.WithDefaults()
	w := &whatIf{run: run, o: o, core: core, recorded: newAsked(own), wanted: newAsked(core.Config()), before: newAccount(), after: newAccount()}
	w.after.pauses = w.before.pauses
	w.tasks = core.Config().Source == grouper.SourceTasks
	w.report = Report{V: Version, Run: run, Own: reflect.DeepEqual(own, core.Config())}
	return w
}

// Letter is a rejection; it is noted when the ledger says that it was.
func (w *whatIf) Letter(seq uint64, a subjects.Address) {
	w.letters = append(w.letters, letter{seq, a})
}

// Bundle notes what was asked for, and holds back what this core has not asked
// for though the run had.
func (w *whatIf) Bundle(seq uint64, at int64, a *subjects.Admission) {
	w.now = max(w.now, at)
	early := false
	for i := range a.Arrivals {
		early = early || w.early(&a.Arrivals[i])
	}
	w.marks.rollouts = seq
	if !early && w.seen == w.applied {
		w.core.Arrive(seq, at, a)
		return
	}
	for i := range a.Arrivals {
		v := &a.Arrivals[i]
		switch at := (subjects.Address{Seq: seq, Index: i}); {
		case v.Err != nil:
		case w.early(v):
			w.held = append(w.held, arrival{at, v.Entry, w.seen})
		default:
			w.arrive(arrival{at, v.Entry, w.seen})
		}
	}
	w.core.Folded(seq)
}

func (w *whatIf) early(v *subjects.Arrival) bool {
	return v.Err == nil && w.tasks && w.recorded.has(&v.Entry) && !w.wanted.has(&v.Entry)
}

// arrive notes a trajectory. Where this core's trainer is elsewhere than the
// recorded one was, its versions keep their distance from the trainer's step.
func (w *whatIf) arrive(a arrival) {
	shift := subjects.PolicyVersion(w.applied - a.seen)
	for _, v := range []*subjects.PolicyVersion{&a.entry.MinVersion, &a.entry.MaxVersion} {
		if *v != subjects.NoVersion {
			*v = max(0, *v+shift)
		}
	}
	w.core.Rollout(a.Address, w.now, &a.entry)
}

// Event notes an event of WEIGHTS; a commit waits for its batch.
func (w *whatIf) Event(m *bus.Msg) {
	w.now = max(w.now, m.Time.UnixNano())
	w.marks.weights = m.Seq
	var c subjects.CommitEvent
	var r subjects.ResumedEvent
	switch {
	case m.Subject == w.run.WeightsSubject(subjects.EventCommit) && subjects.DecodeMessage(m.Data, &c) == nil:
		w.recordedCommit(m, c)
	case m.Subject == w.run.WeightsSubject(subjects.EventResumed) && subjects.DecodeMessage(m.Data, &r) == nil:
		w.seen, w.commits = r.Step, nil
		r.Step = min(r.Step, w.cut)
		w.applied = r.Step
		w.core.Resumed(m.Seq, m.Time.UnixNano(), &r)
	default:
		audit.NoteEvent(w.core, w.run, m)
	}
}

func (w *whatIf) recordedCommit(m *bus.Msg, c subjects.CommitEvent) {
	w.before.commit(c.Step, m.Time.UnixNano())
	w.before.pauses.commit(&c, m.Time.UnixNano())
	w.seen = c.Step
	if c.Step > w.cut {
		w.commits = append(w.commits, commit{m.Seq, c})
		w.core.Weights(m.Seq)
		return
	}
	w.commit(m.Seq, m.Time.UnixNano(), &c)
}

func (w *whatIf) commit(seq uint64, at int64, c *subjects.CommitEvent) {
	w.applied = c.Step
	w.after.commit(c.Step, at)
	w.core.Commit(seq, at, c)
}

// Entry asks the core what follows at this point of the log.
func (w *whatIf) Entry(seq uint64, e *subjects.Entry, raw []byte) {
	if w.err != nil {
		return
	}
	w.report.Entries++
	w.now = max(w.now, e.At)
	w.before.entry(e)
	w.recorded.add(e)
	for len(w.letters) > 0 && w.letters[0].seq <= e.Letters {
		w.core.Reject(w.letters[0].Address)
		w.letters = w.letters[1:]
	}
	w.core.Folded(e.Rollouts)
	w.core.Weights(max(w.marks.weights, e.Weights))
	ask := *e
	if !w.report.Own {
		ask.End, ask.EndText, ask.State, ask.Snapshot = "", "", nil, 0
	}
	out := w.core.Derive(&ask)
	if out == nil {
		return
	}
	if data, err := subjects.EncodeMessage(out); err == nil && bytes.Equal(data, raw) && w.sameState(e) {
		w.report.Same++
	}
	w.decided(out)
}

// sameState reports whether the state that an entry carries is this core's: it is
// not made again, but compared.
func (w *whatIf) sameState(e *subjects.Entry) bool {
	return len(e.State) == 0 || bytes.Equal(w.core.Snapshot(), e.State)
}

// decided notes an entry of this core, and gives it what was held back for it.
func (w *whatIf) decided(e *subjects.Entry) {
	w.after.entry(e)
	w.wanted.add(e)
	for i := range e.Batches {
		w.cut = max(w.cut, e.Batches[i].Step)
	}
	if w.o.Each != nil && w.err == nil {
		w.err = w.o.Each(e)
	}
	for len(w.commits) > 0 && w.commits[0].event.Step <= w.cut {
		w.commit(w.marks.weights, w.now, &w.commits[0].event)
		w.commits = w.commits[1:]
	}
	if len(e.Issued)+len(e.Retries) > 0 {
		w.release()
	}
}

// release hands over what is asked for by now, in the order of the log.
func (w *whatIf) release() (n int) {
	kept := w.held[:0]
	for _, a := range w.held {
		if !w.wanted.has(&a.entry) {
			kept = append(kept, a)
			continue
		}
		w.arrive(a)
		n++
	}
	w.held = kept
	return n
}
