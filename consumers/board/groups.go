package board

import (
	"math"
	"slices"

	"github.com/headrace/headrace/subjects"
)

const (
	mostKept     = 1 << 16 // groups that wait for a batch, as far as they are remembered
	mostAges     = 1 << 13
	mostBatches  = 64 // remembered for what is on its way
	agesSeconds  = 600
	stalestCount = 32 // steps behind that have a count of their own
)

// ageEdges are the bounds of the group ages, seconds.
var ageEdges = []float64{.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800}

// groups is the ledger's account.
type groups struct {
	issued, retries int64
	outcomes        map[subjects.Outcome]int64
	kept            map[subjects.GroupID]waiting
	ages            []age // a ring
	nextAge         int
	batches         []batch // the last, oldest first
	closed          closed  // since the last of them
	bodies, bytes   float64 // of members, for their mean

	trained, unused int64
	dropped         map[subjects.Outcome]int64 // members
}

type waiting struct {
	outcome subjects.Outcome
	members int
	bytes   int64
}

type age struct{ closed, seconds float64 }

type batch struct {
	step, members, bytes int64
	stale                [stalestCount + 1]int64
	closed               closed
}

// closed counts the groups that closed between two batches.
type closed struct{ all, zeroVariance, stale int64 }

func (c *closed) add(o closed) {
	c.all, c.zeroVariance, c.stale = c.all+o.all, c.zeroVariance+o.zeroVariance, c.stale+o.stale
}

func newGroups() groups {
	return groups{outcomes: map[subjects.Outcome]int64{}, kept: map[subjects.GroupID]waiting{}, dropped: map[subjects.Outcome]int64{}}
}

// outcomes that exist; a verdict with another one is not believed.
func valid(o subjects.Outcome) bool {
	switch o {
	case subjects.Kept, subjects.Partial, subjects.ZeroVariance, subjects.Expired, subjects.TooFew, subjects.Stale, subjects.Cancelled:
		return true
	}
	return false
}

func (g *groups) verdict(v *subjects.Verdict) {
	if !valid(v.Outcome) {
		return
	}
	g.outcomes[v.Outcome]++
	if before, again := g.kept[v.Group]; again { // it never reached its batch
		g.outcomes[before.outcome]--
		g.closed.all--
		delete(g.kept, v.Group)
	} else {
		g.unused += int64(max(v.Unused, 0))
		g.aged(v)
	}
	w := waiting{outcome: v.Outcome, members: len(v.Members)}
	for i := range v.Members {
		n := int64(max(v.Members[i].Length, 0))
		w.bytes += n
		g.bodies, g.bytes = g.bodies+1, g.bytes+float64(n)
	}
	switch {
	case !v.Outcome.Trained():
		g.dropped[v.Outcome] += int64(w.members)
	case len(g.kept) < mostKept && len(v.Group) <= longestName:
		g.kept[v.Group] = w
	}
	g.closed.all++
	switch v.Outcome {
	case subjects.ZeroVariance:
		g.closed.zeroVariance++
	case subjects.Stale:
		g.closed.stale++
	}
}

func (g *groups) aged(v *subjects.Verdict) {
	a := age{unix(v.Closed), float64(v.Closed-v.Opened) / 1e9}
	if !known(a.closed) || a.seconds < 0 {
		return
	}
	if len(g.ages) < mostAges {
		g.ages = append(g.ages, a)
		return
	}
	g.ages[g.nextAge] = a
	g.nextAge = (g.nextAge + 1) % mostAges
}

// cut folds a batch in.
func (g *groups) cut(m *subjects.Batch) {
	b := batch{step: int64(m.Step), closed: g.closed}
	g.closed = closed{}
	for i := range m.Groups {
		delete(g.kept, m.Groups[i].Group)
		for j := range m.Groups[i].Members {
			x := &m.Groups[i].Members[j]
			b.members++
			b.bytes += int64(max(x.Length, 0))
			b.stale[behind(m.Step, x.MinVersion)]++
		}
	}
	g.trained += b.members
	if len(g.batches) == 2*mostBatches {
		g.batches = append(g.batches[:0], g.batches[mostBatches:]...)
	}
	g.batches = append(g.batches, b)
}

// behind is how many steps a trajectory's oldest token is behind its batch.
func behind(step subjects.Step, v subjects.PolicyVersion) int {
	if v == subjects.NoVersion {
		return 0
	}
	return int(min(max(int64(step)-1-int64(v), 0), stalestCount))
}

// stale is the histogram of the last batches' members.
func (g *groups) stale() Staleness {
	s := Staleness{Versions: []int64{}, Trajectories: []int64{}}
	var sum [stalestCount + 1]int64
	last := -1
	for _, b := range g.batches[max(0, len(g.batches)-staleBatches):] {
		for i, n := range b.stale {
			if sum[i] += n; n > 0 {
				last = max(last, i)
			}
		}
	}
	for i := 0; i <= last; i++ {
		s.Versions, s.Trajectories = append(s.Versions, int64(i)), append(s.Trajectories, sum[i])
	}
	return s
}

// histogram is that of the ages of the groups that closed in the last ten
// minutes before the newest of them.
func (g *groups) histogram() Histogram {
	h := Histogram{Edges: append([]float64(nil), ageEdges...), Counts: make([]int64, len(ageEdges)+1)}
	newest := math.Inf(-1)
	for _, a := range g.ages {
		newest = max(newest, a.closed)
	}
	for _, a := range g.ages {
		if a.closed < newest-agesSeconds {
			continue
		}
		i := 0
		for i < len(ageEdges) && a.seconds > ageEdges[i] {
			i++
		}
		h.Counts[i]++
	}
	return h
}

// lately counts the groups that closed for the last n batches.
func (g *groups) lately(n int) (sum closed) {
	for i := max(0, len(g.batches)-n); i < len(g.batches); i++ {
		sum.add(g.batches[i].closed)
	}
	sum.add(g.closed)
	return sum
}

// perBatch is how many groups closed for each of the last n batches.
func (g *groups) perBatch(n int) (mean float64) {
	last := g.batches[max(0, len(g.batches)-n):]
	for i := range last {
		mean += float64(last[i].closed.all) / float64(len(last))
	}
	return max(mean, 1)
}

const (
	tailSeconds = 120
	tailLeast   = 64 // groups, where there are not as many in that time
)

// tail is the age of the slowest groups, by that of half of them: of those that
// closed in the span before the newest, and opened after since. The slowest are
// what 95 of 100 stay below or, where more close for a batch, all but one of two
// batches: one is enough to hold a batch up. The ledger has them in the order in
// which they closed. Part is how many of all they are.
func (g *groups) tail(since, span, perBatch float64) (ratio, part float64) {
	var ages []float64
	newest := math.NaN()
	for i := range g.ages {
		a := g.ages[(g.nextAge-1-i+2*len(g.ages))%len(g.ages)]
		if math.IsNaN(newest) {
			newest = a.closed
		}
		if a.closed < newest-span && len(ages) >= tailLeast {
			break
		}
		if a.closed-a.seconds >= since {
			ages = append(ages, a.seconds)
		}
	}
	part = min(.05, 1/(2*perBatch))
	if len(ages) < 16 {
		return math.NaN(), part
	}
	slices.Sort(ages)
	return ages[min(int(float64(len(ages))*(1-part)), len(ages)-2)] / ages[len(ages)/2], part // one is no tail
}

// ever counts all groups that closed.
func (g *groups) ever() (sum closed) {
	for o, n := range g.outcomes {
		sum.all += n
		switch o {
		case subjects.ZeroVariance:
			sum.zeroVariance = n
		case subjects.Stale:
			sum.stale = n
		}
	}
	return sum
}

// keptNow is what waits for a batch.
func (g *groups) keptNow() (members, bytes int64) {
	for _, w := range g.kept {
		members, bytes = members+int64(w.members), bytes+w.bytes
	}
	return members, bytes
}

// after is what is in the batches behind a step.
func (g *groups) after(step int64) (members, bytes int64) {
	for i := range g.batches {
		if g.batches[i].step > step {
			members, bytes = members+g.batches[i].members, bytes+g.batches[i].bytes
		}
	}
	return members, bytes
}

// body is the mean size of a trajectory, bytes.
func (g *groups) body() float64 { return g.bytes / g.bodies }

func (g *groups) state() Groups {
	out := Groups{Issued: g.issued, Open: Unknown(), Kept: Number(len(g.kept)), Oldest: Unknown(), Outcomes: map[subjects.Outcome]int64{}, Retries: g.retries, Ages: g.histogram()}
	closed := int64(0)
	for o, n := range g.outcomes {
		closed += n
		if n > 0 {
			out.Outcomes[o] = n
		}
	}
	out.Open = Number(max(g.issued-closed, 0))
	return out
}

// trajectories is the account as far as the ledger alone has it.
func (g *groups) trajectories() Trajectories {
	t := Trajectories{Trained: g.trained, Dropped: map[string]int64{}}
	kept, _ := g.keptNow()
	t.Open = kept
	t.Produced = g.trained + kept
	for o, n := range g.dropped {
		if n > 0 {
			t.Dropped[string(o)] = n
			t.Produced += n
		}
	}
	if g.unused > 0 {
		t.Dropped["unused"] = g.unused
		t.Produced += g.unused
	}
	return t
}
