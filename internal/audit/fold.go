package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// fold takes the streams in the order in which the grouper did: before an entry
// of the ledger, what it says it was decided on.
type fold struct {
	*auditor
	ctx     context.Context
	entries <-chan record
	bundles source[*bundle]
	events  source[event]

	weighed, lettered uint64 // how far the ledger rests on WEIGHTS and DEADLETTER
}

func (f *fold) all() error {
	for r := range f.entries {
		if r.skipped > 0 {
			f.missing(subjects.Ledger, r.seq-r.skipped, r.skipped)
		}
		if r.entry == nil {
			break // the end of the ledger is missing
		}
		f.report.checked(CheckStreams, 1)
		if r.err != nil {
			f.report.add(Discrepancy{Check: CheckLedger, Kind: Lost, Text: fmt.Sprintf("ledger entry %d cannot be read: %v", r.seq, r.err),
				Stream: f.stream(subjects.Ledger), Seq: r.seq})
			f.ledger.suspend("")
			continue
		}
		if err := f.before(r.entry); err != nil {
			return err
		}
		f.entry(&r)
	}
	if err := f.before(&subjects.Entry{Rollouts: ^uint64(0), Weights: ^uint64(0)}); err != nil {
		return err
	}
	f.judge()
	f.end()
	return f.ctx.Err()
}

// before folds what an entry rests on.
func (f *fold) before(e *subjects.Entry) error {
	for {
		b, ok := f.bundles.peek()
		if ok && b.skipped > 0 && b.seq-b.skipped <= e.Rollouts { // now, though what follows may come later
			f.missing(subjects.Rollouts, b.seq-b.skipped, b.skipped)
			b.skipped = 0
		}
		if !ok || b.seq > e.Rollouts {
			break
		}
		f.bundles.take()
		f.bundle(b)
	}
	for {
		m, ok := f.events.peek()
		if ok && m.skipped > 0 && m.seq-m.skipped <= e.Weights {
			f.missing(subjects.Weights, m.seq-m.skipped, m.skipped)
			f.trainer.hole()
			f.events.next.skipped = 0
		}
		if !ok || m.seq > e.Weights {
			return f.ctx.Err()
		}
		f.events.take()
		f.event(m)
	}
}

// entry checks one entry and applies it.
func (f *fold) entry(r *record) {
	e := r.entry
	for i := range e.Verdicts {
		f.judged = max(f.judged, inspectedTo(&e.Verdicts[i]))
	}
	f.groups.entry(r.seq, e)
	f.evals.entry(r.seq, e)
	f.trainer.entry(e)
	f.ledger.entry(r)
	f.o.Observer.Entry(r.seq, e, r.raw)
	f.window.drop(e.Low)
	if e.End != "" {
		f.report.Cut.Ended = e.End
	}
	f.report.Cut.Folded = max(f.report.Cut.Folded, e.Rollouts)
	f.weighed, f.lettered = max(f.weighed, e.Weights), max(f.lettered, e.Letters)
}

// inspectedTo is the last sequence that must have been inspected for a verdict.
func inspectedTo(v *subjects.Verdict) (seq uint64) {
	switch v.Outcome {
	case subjects.Expired, subjects.TooFew, subjects.Cancelled:
		return 0
	}
	for i := range v.Members {
		seq = max(seq, v.Members[i].Seq)
	}
	return seq
}

// bundle checks one message of ROLLOUTS and notes it.
func (f *fold) bundle(b *bundle) {
	if b.gone {
		return
	}
	f.report.checked(CheckStreams, 1)
	f.report.Bytes += int64(b.bytes)
	f.counters.message(b)
	f.partly(b)
	f.account(b)
	f.bodies(b)
	f.ledger.bundle(b)
	f.o.Observer.Bundle(b.seq, b.at, &b.admission)
	b.header, b.admission.Arrivals = nil, nil
	f.window.add(b)
	f.tell(b.seq)
}

// partly deals with a body of which the early parts are purged, and not the last.
func (f *fold) partly(b *bundle) {
	parts := b.admission.Parts
	if !errors.Is(b.fault, bus.ErrNotFound) || len(parts) == 0 || parts[0] >= f.purged(parts[0]+1) {
		return
	}
	b.fault = nil
	for i := range b.items {
		b.items[i].gone = true
	}
	f.report.unproven(CheckBodies, uint64(len(b.items)), f.purgeText())
}

func (f *fold) purgeText() string {
	return fmt.Sprintf("rollouts below %d are purged, says the run's log: their bodies and what was decided on them cannot be looked at again", f.cut.purged)
}

// account counts what a message brings.
func (f *fold) account(b *bundle) {
	t, e := &f.report.Training, &f.report.Evaluation
	t.Produced += uint64(b.admission.Refused)
	for i := range b.items {
		switch it := &b.items[i]; {
		case it.err != nil:
			t.Produced++
			t.drop("unreadable", 1)
		case it.entry.Kind == subjects.Eval:
			e.Produced++
			f.evals.arrive(b.seq, i, it)
		default:
			t.Produced++
		}
	}
}

// bodies notes what the inspector must have found and did not, or what was whole
// when it looked and no longer is.
func (f *fold) bodies(b *bundle) {
	f.report.checked(CheckBodies, uint64(len(b.items)))
	for i := range b.items {
		it := &b.items[i]
		if it.fault == nil {
			it.fault = b.fault
		}
		again := f.window.came(b.seq, it)
		if it.fault == nil || it.err != nil || again || f.letters.rejected(b.seq, i) {
			continue
		}
		if f.letters.gone > 0 { // its letter may have made room for others
			f.letters.at[subjects.Address{Seq: b.seq, Index: i}] = true
			f.ledger.reject(subjects.Address{Seq: b.seq, Index: i})
			continue
		}
		f.suspects = append(f.suspects, suspect{b.seq, it})
	}
}

// suspect is a body with a fault that no dead letter names.
type suspect struct {
	seq uint64
	*item
}

// judge reports the suspects that an inspector has passed.
func (f *fold) judge() {
	ahead := uint64(0)
	for _, s := range f.suspects {
		switch {
		case s.used: // reported where it was used
		case s.seq <= f.judged || f.report.Cut.Ended != "":
			f.report.add(Discrepancy{Check: CheckBodies, Kind: Lost, Text: fmt.Sprintf("trajectory %s of rollouts message %d: %v", s.entry.ID(), s.seq, s.fault),
				Stream: f.stream(subjects.Rollouts), Seq: s.seq, Trajectory: s.entry.ID()})
		default:
			ahead++
		}
	}
	if ahead > 0 {
		f.report.note(fmt.Sprintf("%d bodies that no trainer could use are ahead of the inspector: it will reject them", ahead))
	}
}

// event notes one message of WEIGHTS.
func (f *fold) event(e event) {
	if e.Msg == nil {
		return
	}
	f.report.checked(CheckStreams, 1)
	f.trainer.event(e.Msg)
	f.ledger.event(e.Msg)
	f.o.Observer.Event(e.Msg)
}

// missing reports a hole in a stream.
func (f *fold) missing(s subjects.Stream, from, n uint64) {
	why := fmt.Sprintf("%s messages %d to %d are missing", s, from, from+n-1)
	switch {
	case s == subjects.Rollouts && from+n <= f.purged(from+n):
		f.report.unproven(CheckBodies, n, f.purgeText())
	default:
		text := why
		if n == 1 {
			text = fmt.Sprintf("%s message %d is missing", s, from)
		}
		f.report.add(Discrepancy{Check: CheckStreams, Kind: Lost, Count: int(n), Text: text + f.how(s), Stream: f.stream(s), Seq: from})
	}
	switch s {
	case subjects.Rollouts:
		f.counters.hole()
		f.evals.hole()
		f.ledger.hole(from, n)
	case subjects.Ledger:
		f.groups.holes = true
	}
	f.ledger.suspend(why)
}

// how says what a hole in a stream looks like.
func (f *fold) how(s subjects.Stream) string {
	state := &f.cut.rollouts
	switch s {
	case subjects.Ledger:
		state = &f.cut.ledger
	case subjects.Weights:
		state = &f.cut.weights
	}
	if uint64(state.NumDeleted)+state.FirstSeq > 1 {
		return ": deleted, with no record of a purge"
	}
	return ": the store counts it and does not give it out, so it is damaged"
}

// purged is the sequence below which ROLLOUTS was purged on record. A run may
// purge while it is audited.
func (f *fold) purged(want uint64) uint64 {
	if f.cut.purged < want {
		if below, err := bus.Purged(f.ctx, f.conn, f.run); err == nil {
			f.cut.purged = max(f.cut.purged, below)
			f.report.Cut.Purged = f.cut.purged
		}
	}
	return f.cut.purged
}

func (a *auditor) stream(s subjects.Stream) string { return a.run.StreamName(s) }
