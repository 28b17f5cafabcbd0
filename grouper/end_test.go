package grouper

import (
	"testing"

	"github.com/headrace/headrace/subjects"
)

// TestFinish_CancelsMoreThanAnEntryHolds ends a run of 128 groups of which each
// has 63 of its 64 members.
func TestFinish_CancelsMoreThanAnEntryHolds(t *testing.T) {
	w := newWorld(t, Config{GroupSize: 64, GroupsPerBatch: 64, Inspect: new(false)}, Supply{Train: []uint64{0}})
	w.decide()
	groups := len(w.core.open)
	for n := range groups {
		var entries []subjects.IndexEntry
		for slot := range 63 {
			entries = append(entries, subjects.IndexEntry{Kind: subjects.Train, Group: subjects.TrainGroup(uint64(n)), Slot: subjects.Slot(slot),
				Environment: "lake", Status: subjects.Succeeded, Reward: float64(slot % 2), Segments: 1, Tokens: 4, Longest: 4, Length: 10})
		}
		w.publish(entries...)
	}
	w.decide()
	before := len(w.ledger)
	w.core.Finish(subjects.EndNoProducers, "nobody plays")
	w.decide()
	w.crash()
	cancelled, ends := 0, 0
	for i, b := range w.ledger[before:] {
		e := &subjects.Entry{}
		if err := subjects.DecodeMessage(b, e); err != nil {
			t.Fatal(err)
		}
		cancelled += len(e.Verdicts)
		if len(b) > 1<<20 || e.EndText != "nobody plays" || (e.End != "") != (i == len(w.ledger)-before-1) {
			t.Errorf("entry %d of %d: %d bytes, end %q, %q", i, len(w.ledger)-before, len(b), e.End, e.EndText)
		}
		if e.End == subjects.EndNoProducers {
			ends++
		}
	}
	s := w.core.Stats()
	if cancelled != groups || ends != 1 || s.Produced != uint64(63*groups) || s.Dropped[Reason(subjects.Cancelled)] != s.Produced {
		t.Errorf("%d of %d groups cancelled, %d ends, account %+v", cancelled, groups, ends, s)
	}
	if len(w.ledger)-before < 3 {
		t.Errorf("%d entries: more than one was wanted", len(w.ledger)-before)
	}
}

// TestDerive_DerivesAnEndThatWasAskedFor derives the end's entries from those
// before them.
func TestDerive_DerivesAnEndThatWasAskedFor(t *testing.T) {
	w := newWorld(t, Config{GroupSize: 2, GroupsPerBatch: 2, Inspect: new(false)}, Supply{Train: []uint64{0}})
	w.decide()
	again, err := New(w.cfg, w.supply)
	if err != nil {
		t.Fatal(err)
	}
	w.core.Finish(subjects.EndEngineGone, "no engine serves")
	w.decide()
	for i, b := range w.ledger {
		e := &subjects.Entry{}
		if err := subjects.DecodeMessage(b, e); err != nil {
			t.Fatal(err)
		}
		got, err := subjects.EncodeMessage(again.Derive(e))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(b) {
			t.Errorf("entry %d:\n%x\n%x", i+1, got, b)
		}
	}
}
