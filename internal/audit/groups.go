package audit

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/subjects"
)

// groups follows every group through the ledger: issued, closed once, batched
// at most once, as it closed.
type groups struct {
	*auditor
	cfg     grouper.Config
	issued  []fate                    // of the groups this run issued, by ordinal
	others  map[subjects.GroupID]fate // of all others
	kept    map[subjects.GroupID][]subjects.Member
	step    subjects.Step // last batch
	trained uint64
	holes   bool // part of the ledger is missing
}

// fate is how far a group is.
type fate uint8

const (
	unknown fate = iota
	open
	waiting // closed, for its batch
	dropped
	batched
)

var fates = [...]string{"never opened", "open", "closed", "dropped", "batched"}

func newGroups(a *auditor) *groups {
	return &groups{auditor: a, cfg: a.o.Policy.Grouper.WithDefaults(), others: map[subjects.GroupID]fate{}, kept: map[subjects.GroupID][]subjects.Member{}}
}

// of is where a group's fate is kept.
func (g *groups) of(id subjects.GroupID) fate {
	if n, ok := ordinal(id); ok && n < uint64(len(g.issued)) {
		return g.issued[n]
	}
	return g.others[id]
}

func (g *groups) set(id subjects.GroupID, f fate) {
	if n, ok := ordinal(id); ok && n < uint64(len(g.issued)) {
		g.issued[n] = f
		return
	}
	g.others[id] = f
}

func ordinal(id subjects.GroupID) (uint64, bool) {
	digits, ok := strings.CutPrefix(string(id), "t")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && subjects.TrainGroup(n) == id
}

// entry follows what an entry of the ledger says of groups.
func (g *groups) entry(seq uint64, e *subjects.Entry) {
	for i := range e.Verdicts {
		g.verdict(seq, &e.Verdicts[i])
	}
	for i := range e.Batches {
		g.batch(seq, &e.Batches[i])
	}
	for _, is := range e.Issued {
		if is.Kind == subjects.Train {
			g.issue(seq, &is)
		}
	}
}

// maxOrdinals bounds what an edited ledger can make an audit allocate.
const maxOrdinals = 1 << 32

func (g *groups) issue(seq uint64, is *subjects.Issue) {
	for n := range uint64(max(is.Count, 0)) {
		at := is.First + n
		if at >= maxOrdinals {
			return
		}
		for uint64(len(g.issued)) <= at {
			g.issued = append(g.issued, unknown)
		}
		if id := subjects.TrainGroup(at); g.issued[at] != unknown {
			g.add(seq, CheckGroups, Duplicated, id, 0, "group %s is issued again although it is %s", id, fates[g.issued[at]])
		} else {
			g.issued[at] = open
		}
	}
}

func (g *groups) add(seq uint64, check string, kind Kind, id subjects.GroupID, step subjects.Step, format string, args ...any) {
	g.report.add(Discrepancy{Check: check, Kind: kind, Text: fmt.Sprintf("ledger entry %d: ", seq) + fmt.Sprintf(format, args...),
		Stream: g.stream(subjects.Ledger), Seq: seq, Group: id, Step: step})
}

func (g *groups) verdict(seq uint64, v *subjects.Verdict) {
	g.report.checked(CheckGroups, 1)
	was := g.of(v.Group)
	switch {
	case was == waiting && !v.Outcome.Trained():
		if !equalMembers(g.kept[v.Group], v.Members, false) {
			g.add(seq, CheckGroups, Wrong, v.Group, 0, "group %s is %s with other members than it closed with", v.Group, v.Outcome)
		}
		delete(g.kept, v.Group)
		g.set(v.Group, dropped)
		return
	case was == open, was == unknown && (g.cfg.Source == grouper.SourceExternal || g.holes):
	case was == unknown:
		g.add(seq, CheckGroups, Wrong, v.Group, 0, "group %s is closed and was never opened", v.Group)
	default:
		g.add(seq, CheckGroups, Duplicated, v.Group, 0, "group %s is closed again (%s) although it is %s", v.Group, v.Outcome, fates[was])
	}
	g.size(seq, v)
	g.members(seq, v)
	g.set(v.Group, dropped)
	if v.Outcome.Trained() {
		g.set(v.Group, waiting)
		g.kept[v.Group] = v.Members
	}
}

// size wants as many members as the verdict says.
func (g *groups) size(seq uint64, v *subjects.Verdict) {
	n, least, most := len(v.Members), 0, g.cfg.GroupSize
	switch v.Outcome {
	case subjects.Kept:
		least = g.cfg.GroupSize
	case subjects.Partial:
		least, most = g.cfg.MinGroupSize, g.cfg.GroupSize-1
	case subjects.ZeroVariance, subjects.Stale:
		least = g.cfg.MinGroupSize
	case subjects.Expired, subjects.TooFew:
		most = g.cfg.MinGroupSize - 1
	}
	switch {
	case n < least:
		g.add(seq, CheckGroups, Short, v.Group, 0, "group %s is %s with %d members; %d are the least", v.Group, v.Outcome, n, least)
	case n > most:
		g.add(seq, CheckGroups, Wrong, v.Group, 0, "group %s is %s with %d members; %d are the most", v.Group, v.Outcome, n, most)
	}
}

// members wants each of them to be a trajectory of the group, one a slot, all of
// one task.
func (g *groups) members(seq uint64, v *subjects.Verdict) {
	slots, addresses := map[subjects.Slot]bool{}, map[subjects.Address]bool{}
	task, known := uint64(0), false
	for i := range v.Members {
		m := &v.Members[i]
		at := subjects.Address{Seq: m.Seq, Index: m.Index}
		switch {
		case addresses[at]:
			g.add(seq, CheckGroups, Duplicated, v.Group, 0, "group %s has trajectory %s twice", v.Group, memberID(v.Group, m))
		case slots[m.Slot]:
			g.add(seq, CheckGroups, Duplicated, v.Group, 0, "group %s has two trajectories of slot %d", v.Group, m.Slot)
		}
		slots[m.Slot], addresses[at] = true, true
		it := g.member(seq, v.Group, m, v.Outcome)
		if it == nil || it.fault != nil || it.gone {
			continue
		}
		if known && it.task != task && g.cfg.Source != grouper.SourceExternal {
			g.add(seq, CheckGroups, Mixed, v.Group, 0, "group %s: trajectory %s played another task than those before it", v.Group, it.entry.ID())
		}
		task, known = it.task, true
	}
}

func memberID(group subjects.GroupID, m *subjects.Member) string {
	return subjects.TrajectoryID(group, m.Slot, m.Attempt)
}

// member compares what the ledger says of a trajectory with what lies at its
// address. nil: nothing does.
func (g *groups) member(seq uint64, group subjects.GroupID, m *subjects.Member, o subjects.Outcome) *item {
	it := g.window.find(m.Seq, m.Index)
	if it == nil {
		g.absent(seq, group, m)
		return nil
	}
	e := &it.entry
	want := subjects.Member{Slot: e.Slot, Attempt: e.Attempt, Seq: m.Seq, Index: m.Index, Offset: e.Offset, Length: e.Length, Checksum: e.Checksum,
		Status: e.Status, Reward: e.Reward, Segments: e.Segments, Tokens: e.Tokens, Longest: e.Longest, MinVersion: e.MinVersion, MaxVersion: e.MaxVersion,
		Advantage: m.Advantage, Masked: m.Masked}
	switch {
	case it.err != nil || e.Kind != subjects.Train || e.Group != group:
		g.add(seq, CheckGroups, Mixed, group, 0, "group %s has %s %s of group %s among its members", group, e.Kind, e.ID(), e.Group)
		return nil
	case want != *m:
		g.add(seq, CheckGroups, Wrong, group, 0, "group %s: the ledger says %s of trajectory %s, its index entry %s", group, describe(m), e.ID(), describe(&want))
	case o.Trained() && g.letters.rejected(m.Seq, m.Index):
		g.add(seq, CheckGroups, Wrong, group, 0, "group %s is %s with trajectory %s, which the inspector rejected", group, o, e.ID())
	}
	return it
}

func describe(m *subjects.Member) string {
	return fmt.Sprintf("slot %d, attempt %d, %s, reward %v, %d tokens in %d segments, versions %d-%d, bytes [%d, +%d), checksum %08x",
		m.Slot, m.Attempt, m.Status, m.Reward, m.Tokens, m.Segments, m.MinVersion, m.MaxVersion, m.Offset, m.Length, m.Checksum)
}

// absent deals with a member that the log does not have (any more).
func (g *groups) absent(seq uint64, group subjects.GroupID, m *subjects.Member) {
	switch {
	case m.Seq < g.cut.purged:
		g.report.unproven(CheckGroups, 1, "")
	case g.ledger.lost(m.Seq): // reported as a hole in the stream
		g.report.unproven(CheckGroups, 1, "")
	case m.Seq < g.window.low:
		g.add(seq, CheckGroups, Wrong, group, 0, "group %s: trajectory %s lies at %d, below the watermark %d of the entry before", group, memberID(group, m), m.Seq, g.window.low)
	default:
		g.add(seq, CheckGroups, Lost, group, 0, "group %s: there is no trajectory at %d.%d, where the ledger has %s", group, m.Seq, m.Index, memberID(group, m))
	}
}

func equalMembers(a, b []subjects.Member, advantages bool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if !advantages {
			x.Advantage, y.Advantage = 0, 0
		}
		if x != y {
			return false
		}
	}
	return true
}
