package grouper

import (
	"testing"

	"github.com/headrace/headrace/subjects"
)

// backlog is a core that reads much at once, as after a start or when it is behind:
// decide is called with the entries of each slice of headers.
func backlog(t testing.TB, groups, slice, perBatch int, decide func(*Core, *subjects.Entry)) *Core {
	t.Helper()
	c, err := New(Config{Source: SourceExternal, GroupSize: 8, GroupsPerBatch: perBatch, MaxStaleness: new(1 << 20), Stale: PolicyKeep, Inspect: new(false)},
		Supply{Train: []uint64{0}})
	if err != nil {
		t.Fatal(err)
	}
	ledger := uint64(0)
	for i, h := range benchHeaders(groups, 512) {
		e, err := subjects.ParseIndex(h)
		if err != nil {
			t.Fatal(err)
		}
		c.Rollout(subjects.Address{Seq: uint64(i/64 + 1), Index: i % 64}, 1, &e)
		if (i+1)%slice > 0 {
			continue
		}
		c.Folded(uint64(i/64 + 1))
		for e := c.Decide(1); e != nil; e = c.Decide(1) {
			ledger++
			c.Appended(e, ledger)
			decide(c, e)
		}
	}
	return c
}

// BenchmarkBacklog folds slices of a thousand groups, one trajectory an operation.
func BenchmarkBacklog(b *testing.B) {
	stateEvery = defaultStateEvery
	b.ReportAllocs()
	c := backlog(b, b.N/8+1024, 8192, 8, func(*Core, *subjects.Entry) {})
	b.ReportMetric(float64(c.stats.Trained)/b.Elapsed().Seconds(), "trajectories/s")
}

// TestSeal_AStateThatIsTooLargeIsNotTriedWithEachEntry: it is put off like one that
// was made.
func TestSeal_AStateThatIsTooLargeIsNotTriedWithEachEntry(t *testing.T) {
	stateEvery = 4
	c := backlog(t, 4096, 512, 1<<20, func(*Core, *subjects.Entry) {})
	if len(c.Snapshot()) <= maxState {
		t.Fatalf("a state of %d bytes is not too large", len(c.Snapshot()))
	}
	c.since = 1 << 20
	e := &subjects.Entry{}
	if c.seal(e); len(e.State) > 0 || c.since > 0 {
		t.Errorf("a state of %d bytes; tried again %d items later", len(e.State), c.since)
	}
}

// TestApplyBatch_TakesItsGroupsFromAnywhere: first, last and in between.
func TestApplyBatch_TakesItsGroupsFromAnywhere(t *testing.T) {
	c := backlog(t, 64, 512, 1<<20, func(*Core, *subjects.Entry) {})
	all := len(c.kept)
	b := &subjects.Batch{Step: 1}
	for _, i := range []int{0, 7, all - 1} {
		b.Groups = append(b.Groups, subjects.BatchGroup{Group: c.kept[i].id})
	}
	if err := c.applyBatch(b); err != nil || len(c.kept) != all-3 || c.stats.Trained != 24 {
		t.Errorf("%v: %d of %d groups are left, %d trajectories trained", err, len(c.kept), all, c.stats.Trained)
	}
	for i, g := range c.kept {
		if g == nil || g.gone || i > 0 && byOrder(c.kept[i-1], g) > 0 {
			t.Fatalf("group %d of those left: %+v", i, g)
		}
	}
	twice := &subjects.Batch{Step: 2, Groups: []subjects.BatchGroup{{Group: c.kept[0].id}, {Group: c.kept[0].id}}}
	if err := c.applyBatch(twice); err == nil {
		t.Error("a group twice in a batch passes")
	}
}
