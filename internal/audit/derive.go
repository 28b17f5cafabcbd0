package audit

import (
	"bytes"
	"fmt"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// derivation decides every entry of the ledger again. Two cores fold the same
// log: one applies what the ledger says, the other decides for itself. After a
// difference the second goes on from the first, so one edit is one discrepancy.
type derivation struct {
	*auditor
	policy   grouper.Config
	replayed *grouper.Core // nil: the ledger contradicts itself, until the next state
	decided  *grouper.Core // nil: as long as a decision's events are not all there
	noted    int           // letters that decided has noted
	why      string        // decided is nil
	from     uint64        // no state before this ROLLOUTS mark will do
	holes    []span
	purged   bool // events of the replayed core are missing
	state    uint64
}

// span is a hole in ROLLOUTS.
type span struct{ from, to uint64 }

func newDerivation(a *auditor) *derivation {
	d := &derivation{auditor: a, policy: a.o.Policy.Grouper.WithDefaults()}
	d.replayed, _ = grouper.New(a.o.Policy.Grouper, a.o.Policy.Supply)
	d.decided, _ = grouper.New(a.o.Policy.Grouper, a.o.Policy.Supply)
	return d
}

// start notes all rejections in the replayed core, as a grouper does that starts.
func (d *derivation) start() {
	for _, l := range d.letters.list {
		d.replayed.Reject(l.Address)
	}
	if d.letters.gone > 0 {
		d.suspend(fmt.Sprintf("dead letters up to %d are gone: what they rejected is not known", d.letters.goneTo))
	}
	why := d.o.Policy.Unknown
	if d.o.Policy.Imported {
		why = "decisions are not derived again: the run was imported, its ledger is what the file says"
	}
	if why != "" {
		d.suspend(why)
		d.from = ^uint64(0)
	}
}

// reject notes a rejection of which the letter is gone.
func (d *derivation) reject(a subjects.Address) {
	if d.replayed != nil {
		d.replayed.Reject(a)
	}
}

// suspend stops deciding until the next state of the ledger that rests on
// nothing missing.
func (d *derivation) suspend(why string) {
	d.decided, d.why = nil, why
}

// hole notes missing messages of ROLLOUTS.
func (d *derivation) hole(from, n uint64) {
	d.holes = append(d.holes, span{from, from + n - 1})
	d.from = max(d.from, from+n-1)
	d.purged = true
}

// lost reports whether a sequence is in a hole.
func (d *derivation) lost(seq uint64) bool {
	for _, h := range d.holes {
		if seq >= h.from && seq <= h.to {
			return true
		}
	}
	return false
}

// cores calls fn with each core there is.
func (d *derivation) cores(fn func(*grouper.Core)) {
	if d.replayed != nil {
		fn(d.replayed)
	}
	if d.decided != nil {
		fn(d.decided)
	}
}

// bundle notes the trajectories of a message, as the grouper does.
func (d *derivation) bundle(b *bundle) {
	d.cores(func(c *grouper.Core) { c.Arrive(b.seq, b.at, &b.admission) })
}

// event notes an event of WEIGHTS.
func (d *derivation) event(m *bus.Msg) {
	d.cores(func(c *grouper.Core) { NoteEvent(c, d.run, m) })
}

// NoteEvent notes an event of WEIGHTS in a core. One that cannot be read changes
// nothing but the mark.
func NoteEvent(c *grouper.Core, run subjects.Run, m *bus.Msg) {
	at := m.Time.UnixNano()
	switch m.Subject {
	case run.WeightsSubject(subjects.EventCommit):
		noteAs(m, func(e *subjects.CommitEvent) { c.Commit(m.Seq, at, e) })
	case run.WeightsSubject(subjects.EventResumed):
		noteAs(m, func(e *subjects.ResumedEvent) { c.Resumed(m.Seq, at, e) })
	case run.WeightsSubject(subjects.EventVersion):
		noteAs(m, func(e *subjects.VersionEvent) { c.Version(m.Seq, e) })
	case run.WeightsSubject(subjects.EventCheckpoint), run.WeightsSubject(subjects.EventPurged):
	default:
		noteAs(m, func(e *subjects.AckEvent) { c.Ack(m.Seq, e) })
	}
	c.Weights(m.Seq)
}

func noteAs[T any](m *bus.Msg, fn func(*T)) {
	v := new(T)
	if subjects.DecodeMessage(m.Data, v) == nil {
		fn(v)
	}
}

// entry decides an entry again, then applies it.
func (d *derivation) entry(r *record) {
	e := r.entry
	d.snapshot(r)
	if d.decided != nil {
		d.report.checked(CheckLedger, 1)
		d.decide(r)
	} else {
		d.report.unproven(CheckLedger, 1, d.unprovenText())
	}
	d.apply(r)
	if len(e.State) > 0 {
		d.adopt(r)
	}
}

func (d *derivation) unprovenText() string {
	if d.why == "" {
		return ""
	}
	return "entries of the ledger are not decided again: " + d.why
}

// snapshot wants an entry to name the newest state.
func (d *derivation) snapshot(r *record) {
	want := d.state
	if len(r.entry.State) > 0 {
		want, d.state = 0, r.seq
	}
	if r.entry.Snapshot != want && len(d.holes) == 0 {
		d.add(r, "the newest state is said to be in entry %d; it is in %d", r.entry.Snapshot, want)
	}
}

func (d *derivation) add(r *record, format string, args ...any) {
	d.report.add(Discrepancy{Check: CheckLedger, Kind: Wrong, Text: fmt.Sprintf("ledger entry %d: ", r.seq) + fmt.Sprintf(format, args...),
		Stream: d.stream(subjects.Ledger), Seq: r.seq})
}

// decide compares what follows from the log with what the ledger says.
func (d *derivation) decide(r *record) {
	e := r.entry
	for d.noted < len(d.letters.list) && d.letters.list[d.noted].seq <= e.Letters {
		d.decided.Reject(d.letters.list[d.noted].Address)
		d.noted++
	}
	if ro, we := d.decided.Marks(); ro != e.Rollouts || we != e.Weights {
		d.decided.Folded(e.Rollouts)
		d.decided.Weights(max(we, e.Weights))
	}
	out := d.decided.Derive(e)
	if out == nil {
		d.add(r, "nothing was to be decided at this point of the log")
		d.decided = nil
		return
	}
	data, err := subjects.EncodeMessage(out)
	if err == nil && bytes.Equal(data, r.raw) {
		return
	}
	d.decided = nil
	step, group, text := difference(out, e)
	d.report.add(Discrepancy{Check: CheckLedger, Kind: Wrong, Text: fmt.Sprintf("ledger entry %d is not what follows from the log: %s", r.seq, text),
		Stream: d.stream(subjects.Ledger), Seq: r.seq, Step: step, Group: group})
}

// apply applies an entry to the core that believes the ledger, and gives the
// other one a new start after a difference.
func (d *derivation) apply(r *record) {
	if d.replayed == nil {
		return
	}
	again := d.decided == nil && d.why == "" && len(d.holes) == 0
	if err := d.replayed.Apply(r.entry, r.seq); err != nil {
		d.add(r, "%v", err)
		d.replayed, d.decided, d.why = nil, nil, fmt.Sprintf("entry %d contradicts those before it", r.seq)
		return
	}
	d.replayed.Folded(r.entry.Rollouts)
	if again {
		d.restart(d.replayed.Snapshot(), r)
	}
}

// adopt goes on from an entry's state, if what it rests on is gone or broken.
func (d *derivation) adopt(r *record) {
	switch {
	case d.decided != nil && !bytes.Equal(d.decided.Snapshot(), r.entry.State):
		d.add(r, "its state is not the one that follows from the log")
	case d.decided == nil && r.entry.Rollouts >= d.from && r.entry.Letters >= d.letters.goneTo:
		d.restart(r.entry.State, r)
	}
	if d.replayed == nil || d.purged {
		if core, err := grouper.Restore(d.o.Policy.Grouper, d.o.Policy.Supply, r.entry.State, r.seq); err == nil {
			d.replayed, d.purged = core, false
			for _, l := range d.letters.list {
				core.Reject(l.Address)
			}
		}
	}
}

// restart gives the deciding core a state.
func (d *derivation) restart(state []byte, r *record) {
	core, err := grouper.Restore(d.o.Policy.Grouper, d.o.Policy.Supply, state, r.seq)
	if err != nil {
		d.suspend(fmt.Sprintf("the state of entry %d cannot be read: %v", r.seq, err))
		return
	}
	d.decided, d.why, d.noted = core, "", 0
}
