package trainerbridge

import (
	"slices"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// TestBuilder_ACacheThatHoldsNothingGivesTheSameBatches feeds the same steps from
// a cache with room for all and from one that is too small for any bundle, so
// that all of them are fetched and stripped.
func TestBuilder_ACacheThatHoldsNothingGivesTheSameBatches(t *testing.T) {
	w := newWorld(t)
	w.steps(1, 6)
	want := train(t, w.serve(nil).dial(0), 6)
	small := w.serve(func(c *Config) { c.CacheBytes, c.Inspect = 1, false })
	if got := train(t, small.dial(0), 6); !slices.Equal(got, want) {
		t.Errorf("digests %v, want %v", got, want)
	}
	if err := small.end(); err != nil {
		t.Error(err)
	}
}

func TestBundle_StrippedKeepsTheSegmentsOfItsMembersAndNothingElse(t *testing.T) {
	w := newWorld(t)
	members := w.send(w.part(episode(0, 0, 24)), w.part(forked(episode(0, 1, 40))), w.part(episode(0, 2, 30)))
	m := w.stored(subjects.Rollouts)[0]
	opened, err := bus.OpenBundle(1, m.Header, m.Data)
	w.must(err)
	whole, lean := newBundle(opened), newBundle(&bus.Bundle{Seq: 1, Header: m.Header, Data: slices.Clone(m.Data), Items: slices.Clone(opened.Items)})
	memory := lean.Data
	lean.strip([]int{1, 2}, testVocab)
	clear(memory) // nothing may point into the message any more
	if lean.Data != nil || lean.Header != nil || !lean.lean || len(members) != 3 {
		t.Fatalf("%+v", lean)
	}
	for _, i := range []int{1, 2} {
		want, err := whole.view(i, testVocab)
		w.must(err)
		got, err := lean.view(i, testVocab)
		w.must(err)
		for k := range want.Segments {
			a, b := &want.Segments[k], &got.Segments[k]
			if !slices.Equal(a.Tokens, b.Tokens) || !slices.Equal(a.Logprobs, b.Logprobs) || !slices.Equal(a.Versions, b.Versions) ||
				!slices.Equal(a.LossMask, b.LossMask) || a.Parent != b.Parent || a.Shared != b.Shared {
				t.Errorf("trajectory %d, segment %d differs", i, k)
			}
		}
	}
	bad := newBundle(&bus.Bundle{Seq: 1, Data: slices.Clone(m.Data), Items: slices.Clone(opened.Items)})
	bad.Data[len(bad.Data)/2] ^= 0xff // in the middle of trajectory 1
	bad.strip([]int{1, 7}, 3)
	if _, err := bad.view(1, testVocab); err == nil {
		t.Error("a malformed trajectory is sound once it is stripped")
	}
}

func TestBodies_CountWhatManySegmentsTake(t *testing.T) {
	w := newWorld(t)
	tr := episode(0, 0, 24)
	for range 500 {
		tr.Segments = append(tr.Segments, subjects.Segment{Parent: -1})
	}
	w.send(w.part(tr))
	m := w.stored(subjects.Rollouts)[0]
	opened, err := bus.OpenBundle(1, m.Header, m.Data)
	w.must(err)
	b := newBundle(opened)
	if _, err := b.view(0, testVocab); err != nil {
		t.Fatal(err)
	}
	c := newBodies(len(m.Data) + viewBytes + 500*segmentBytes) // one segment too few
	if c.put(b); c.get(1) != nil {
		t.Errorf("a bundle of %d bytes is kept in %d", b.bytes(), c.limit)
	}
	c.limit += segmentBytes
	if c.put(b); c.get(1) == nil {
		t.Errorf("a bundle of %d bytes is not kept in %d", b.bytes(), c.limit)
	}
}

func TestManifests_KeepAsManyDecodedAsThereIsRoomFor(t *testing.T) {
	m := newManifests(nil, testRun, newBodies(1<<20))
	batch := func(step, members int) *subjects.Entry {
		return &subjects.Entry{Batches: []subjects.Batch{{Step: subjects.Step(step), Groups: []subjects.BatchGroup{{Members: make([]subjects.Member, members)}}}}}
	}
	for step := 1; step <= 100; step++ {
		m.add(uint64(step), batch(step, 10))
	}
	if len(m.recent) != recentSteps || m.members != 10*recentSteps || m.recent[100-recentSteps+1] == nil {
		t.Errorf("%d manifests with %d members", len(m.recent), m.members)
	}
	for step := 101; step <= 110; step++ {
		m.add(uint64(step), batch(step, recentMembers/4))
	}
	if len(m.recent) != 4 || m.members > recentMembers || m.recent[110] == nil || m.seqs[1] != 1 {
		t.Errorf("%d manifests with %d members", len(m.recent), m.members)
	}
	if m.add(111, batch(111, 2*recentMembers)); len(m.recent) != 1 || m.recent[111] == nil {
		t.Errorf("the newest is not kept: %d manifests", len(m.recent))
	}
}
