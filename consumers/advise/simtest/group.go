package simtest

import "github.com/headrace/headrace/subjects"

// grouper issues groups, closes them and cuts batches.
type grouper struct {
	open                      map[int]*group
	kept                      []*group
	issued, cut               int
	produced, trained         int
	zeroDropped, staleDropped int // trajectories
	committed                 int
	ready                     []*subjects.Batch
	entry                     subjects.Entry
	delivered, wasted         int
}

type group struct {
	n        int
	opened   float64
	members  []subjects.Member
	id       subjects.GroupID
	needless bool // its rewards are equal
}

// issue opens as many groups as the bound on staleness allows; new ones only
// once an engine serves the weights that the bound counts from.
func (w *world) issue() {
	for ahead := w.issued - w.wasted; ahead < (int(w.served())+1+w.MaxStaleness)*w.GroupsPerBatch; ahead++ {
		g := &group{n: w.issued, opened: w.now, id: subjects.TrainGroup(uint64(w.issued)), needless: w.rand.Float64() < w.ZeroVariance}
		w.open[g.n] = g
		w.issued++
		w.entry.Issued = append(w.entry.Issued, subjects.Issue{Kind: subjects.Train, First: uint64(g.n), Count: 1})
		for range w.GroupSize {
			w.tasks = append(w.tasks, &episode{group: g})
		}
	}
	w.write()
	w.lease()
}

func (w *world) arrive(e *episode) {
	w.produced++
	g := e.group
	reward := float64(len(g.members) % 2)
	if g.needless {
		reward = 0
	}
	g.members = append(g.members, subjects.Member{Slot: subjects.Slot(len(g.members)), Status: subjects.Succeeded, Reward: reward, Tokens: e.context, Length: 4 * e.context,
		MinVersion: subjects.PolicyVersion(e.version), MaxVersion: subjects.PolicyVersion(e.version)})
	if len(g.members) < w.GroupSize {
		return
	}
	delete(w.open, g.n)
	if g.needless {
		w.zeroDropped += len(g.members)
		w.drop(g, subjects.ZeroVariance)
	} else {
		w.kept = append(w.kept, g)
		w.verdict(g, subjects.Kept)
	}
	w.batches()
	w.issue()
}

func (w *world) verdict(g *group, o subjects.Outcome) {
	w.entry.Verdicts = append(w.entry.Verdicts, subjects.Verdict{Group: g.id, Outcome: o, Members: g.members, Opened: at(g.opened).UnixNano(), Closed: w.time().UnixNano()})
}

func (w *world) drop(g *group, o subjects.Outcome) {
	w.wasted++
	w.verdict(g, o)
}

// batches cuts what is full and allowed, and drops what became too old.
func (w *world) batches() {
	for w.cut < w.committed+1+w.MaxStaleness {
		w.stale()
		if len(w.kept) < w.GroupsPerBatch {
			break
		}
		b := subjects.Batch{Step: subjects.Step(w.cut + 1)}
		for _, g := range w.kept[:w.GroupsPerBatch] {
			b.Groups = append(b.Groups, subjects.BatchGroup{Group: g.id, Environment: "sim", Members: g.members})
			b.Rows += len(g.members)
			for _, m := range g.members {
				b.Tokens += m.Tokens
				b.StalenessMean += float64(max(0, int64(b.Step)-1-int64(m.MinVersion))) / float64(w.GroupsPerBatch*w.GroupSize)
			}
		}
		b.RewardMean = .5
		w.kept = w.kept[w.GroupsPerBatch:]
		w.cut++
		w.trained += b.Rows
		w.entry.Batches = append(w.entry.Batches, b)
		w.ready = append(w.ready, &b)
	}
	w.write()
	w.receive()
}

func (w *world) stale() {
	var rest []*group
	for _, g := range w.kept {
		oldest := int64(w.cut)
		for _, m := range g.members {
			oldest = min(oldest, int64(m.MinVersion))
		}
		if int64(w.cut)-oldest > int64(w.MaxStaleness) {
			w.staleDropped += len(g.members)
			w.drop(g, subjects.Stale)
		} else {
			rest = append(rest, g)
		}
	}
	w.kept = rest
}

// write appends what was decided to the ledger.
func (w *world) write() {
	if e := &w.entry; len(e.Issued)+len(e.Verdicts)+len(e.Batches) > 0 {
		e.At = w.time().UnixNano()
		w.board.Entry(e)
		w.entry = subjects.Entry{}
	}
}
