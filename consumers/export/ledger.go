package export

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// ledger collects what an imported run's ledger will say: verdicts in the order
// in which groups first came, then batches by step.
type ledger struct {
	verdicts []*subjects.Verdict
	groups   map[subjects.GroupID]*subjects.Verdict
	batches  map[subjects.Step]*subjects.Batch
	evals    []subjects.EvalResult
	last     uint64 // ROLLOUTS sequence
}

func newLedger() ledger {
	return ledger{groups: map[subjects.GroupID]*subjects.Verdict{}, batches: map[subjects.Step]*subjects.Batch{}}
}

// add takes a trajectory that is in ROLLOUTS.
func (l *ledger) add(e *subjects.IndexEntry, at subjects.Address, f *Fate) {
	l.last = max(l.last, at.Seq)
	if f == nil {
		return
	}
	v := l.groups[e.Group]
	if v == nil {
		v = &subjects.Verdict{Group: e.Group, Outcome: f.Outcome, Opened: f.Opened, Closed: f.Closed, Unused: f.Unused}
		l.groups[e.Group], l.verdicts = v, append(l.verdicts, v)
	}
	if !f.Member {
		return
	}
	m := subjects.Member{Slot: e.Slot, Attempt: e.Attempt, Seq: at.Seq, Index: at.Index, Offset: e.Offset, Length: e.Length, Checksum: e.Checksum,
		Status: e.Status, Reward: e.Reward, Segments: e.Segments, Tokens: e.Tokens, Longest: e.Longest,
		MinVersion: e.MinVersion, MaxVersion: e.MaxVersion, Masked: f.Masked}
	v.Members = append(v.Members, m)
	if f.Step > 0 {
		m.Advantage = f.Advantage
		l.batch(f.Step, e, &m)
	}
}

func (l *ledger) batch(step subjects.Step, e *subjects.IndexEntry, m *subjects.Member) {
	b := l.batches[step]
	if b == nil {
		b = &subjects.Batch{Step: step}
		l.batches[step] = b
	}
	k := slices.IndexFunc(b.Groups, func(g subjects.BatchGroup) bool { return g.Group == e.Group })
	if k < 0 {
		b.Groups = append(b.Groups, subjects.BatchGroup{Group: e.Group, Environment: e.Environment})
		k = len(b.Groups) - 1
	}
	b.Groups[k].Members = append(b.Groups[k].Members, *m)
}

// perEntry bounds the verdicts of one entry.
const perEntry = 64

// write appends all of it, and the end.
func (l *ledger) write(ctx context.Context, c *bus.Conn, run subjects.Run, now int64) error {
	var seq uint64
	put := func(e *subjects.Entry) (err error) {
		e.At, e.Writer, e.Rollouts, e.Low = now, ImportProducer, l.last, 1
		data, err := subjects.EncodeMessage(e)
		if err == nil {
			seq, err = bus.Append(ctx, c, run.LedgerSubject(), nil, data, seq)
		}
		if err != nil {
			return fmt.Errorf("import the ledger of %s: %w", run, err)
		}
		return nil
	}
	bySlot := func(a, b subjects.Member) int { return cmp.Compare(a.Slot, b.Slot) }
	for part := range slices.Chunk(l.verdicts, perEntry) {
		e := &subjects.Entry{}
		for _, v := range part {
			slices.SortFunc(v.Members, bySlot)
			e.Verdicts = append(e.Verdicts, *v)
		}
		if err := put(e); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(l.evals, perEntry) {
		if err := put(&subjects.Entry{Evals: part}); err != nil {
			return err
		}
	}
	for _, b := range l.ordered() {
		if err := put(&subjects.Entry{Batches: []subjects.Batch{*b}}); err != nil {
			return err
		}
	}
	return put(&subjects.Entry{End: EndImported, EndText: "the run was imported: nobody plays it"})
}

// ordered are the batches by step, summed up.
func (l *ledger) ordered() []*subjects.Batch {
	var all []*subjects.Batch
	for _, b := range l.batches {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *subjects.Batch) int { return cmp.Compare(a.Step, b.Step) })
	low := l.last + 1
	for _, b := range slices.Backward(all) {
		low = min(low, sum(b))
		b.Watermark = low
	}
	return all
}

// sum fills in a batch's totals and returns its lowest sequence.
func sum(b *subjects.Batch) (low uint64) {
	members, stale := 0, int64(0)
	low = ^uint64(0)
	for g := range b.Groups {
		slices.SortFunc(b.Groups[g].Members, func(a, c subjects.Member) int { return cmp.Compare(a.Slot, c.Slot) })
		for _, m := range b.Groups[g].Members {
			members++
			low = min(low, m.Seq)
			b.Rows, b.Tokens, b.Longest = b.Rows+m.Segments, b.Tokens+m.Tokens, max(b.Longest, m.Longest)
			age := max(0, int64(b.Step)-1-int64(m.MinVersion))
			stale, b.StalenessMax = stale+age, max(b.StalenessMax, age)
			b.RewardMean += m.Reward
		}
	}
	b.StalenessMean = float64(stale) / float64(members)
	b.RewardMean /= float64(members)
	return low
}
