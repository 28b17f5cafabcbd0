package grouper

import (
	"testing"

	"github.com/headrace/headrace/subjects"
)

// TestDecide_AnEntryHoldsOneLargeBatchOrABoundedRest decides on a run whose
// batches have more members than an entry may list: each has an entry of its own,
// every other entry stays under a bound, and a restored core is the same.
func TestDecide_AnEntryHoldsOneLargeBatchOrABoundedRest(t *testing.T) {
	const size, groups = 64, 80 // 5120 members a batch
	w := newWorld(t, Config{GroupSize: size, GroupsPerBatch: groups, MaxStaleness: new(1), Steps: 4, Inspect: new(false), SlotRetries: new(1)}, Supply{Train: []uint64{0}})
	w.decide()
	publish := func(attempt subjects.Attempt, status subjects.Status) {
		for g := range 2 * groups {
			var entries []subjects.IndexEntry
			for slot := range size {
				entries = append(entries, subjects.IndexEntry{Kind: subjects.Train, Group: subjects.TrainGroup(uint64(g)), Slot: subjects.Slot(slot), Attempt: attempt,
					Status: status, Reward: float64(slot % 2), Segments: 1, Tokens: 8, Longest: 8, Trainable: 4, Environment: "e", Length: 80, MinVersion: 0, MaxVersion: 0})
			}
			w.publish(entries...)
		}
	}
	publish(0, subjects.Failed) // all slots are handed out again
	w.decide()
	publish(1, subjects.Succeeded)
	w.decide()
	w.crash()
	batches, retries := 0, 0
	for i, b := range w.ledger {
		e := &subjects.Entry{}
		if err := subjects.DecodeMessage(b, e); err != nil {
			t.Fatal(err)
		}
		batches, retries = batches+len(e.Batches), retries+len(e.Retries)
		members := entryMembers(e)
		if len(e.Retries) > maxMembers+size || len(e.Batches) > 1 || len(e.Batches) == 1 && members != groups*size || len(e.Batches) == 0 && members > maxMembers+size {
			t.Errorf("entry %d: %d batches, %d members, %d retries", i+1, len(e.Batches), members, len(e.Retries))
		}
	}
	if batches != 2 || retries != 2*groups*size {
		t.Errorf("%d batches, %d retries", batches, retries)
	}
}
