package index

import (
	"fmt"
	"math"
	"time"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/subjects"
)

var none = show.Number(math.NaN())

// seconds is a time as Unix seconds, null where there is none.
func seconds(nanos int64) show.Number {
	if nanos <= 0 {
		return none
	}
	return show.Number(float64(nanos) / 1e9)
}

// Member is a trajectory of a group, as far as the log's index tells.
type Member struct {
	subjects.Address
	Slot       subjects.Slot
	Attempt    subjects.Attempt
	Status     subjects.Status
	Reward     float64
	Tokens     int
	MinVersion subjects.PolicyVersion
	MaxVersion subjects.PolicyVersion
	Producer   string // empty: purged before it was seen
	// Member: the group closed with it, while it is open could close with it, or was
	// evaluated with it.
	Member bool
	// Used: it goes into a batch, or was evaluated. Why says why not.
	Used bool
	Why  string
	// Advantage is set where a batch has it; NaN otherwise.
	Advantage float64
	Masked    bool
	Purged    bool // its body is gone
	Step      subjects.Step
}

// ID names the trajectory.
func (m *Member) id(g string) string {
	return subjects.TrajectoryID(subjects.GroupID(g), m.Slot, m.Attempt)
}

// Group gives a group and all of its trajectories that arrived, in that order.
func (x *Index) Group(id string) (v Group, members []Member, ok bool) {
	if y := x.latest(); y != nil {
		if v, members, ok = y.Group(id); ok {
			return v, members, ok
		}
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, ok := x.by[id]
	if !ok {
		return v, nil, false
	}
	g := &x.groups[i]
	x.each(g, func(_ uint32, r *row) {
		if !r.is(isDead) {
			members = append(members, x.memberOf(g, r))
		}
	})
	return x.view(g, time.Now().UnixNano()), members, true
}

// Trajectory finds a trajectory by its id. Of several under one id it is the one
// that was used, or the first.
func (x *Index) Trajectory(id string) (m Member, ok bool) {
	if y := x.latest(); y != nil {
		if m, ok = y.Trajectory(id); ok {
			return m, ok
		}
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for k := range len(id) {
		if id[k] != '/' {
			continue
		}
		i, known := x.by[id[:k]]
		if !known {
			return m, false
		}
		g := &x.groups[i]
		x.each(g, func(_ uint32, r *row) {
			if found := x.memberOf(g, r); !r.is(isDead) && found.id(g.id) == id && (!ok || found.Used && !m.Used) {
				m, ok = found, true
			}
		})
		return m, ok
	}
	return m, false
}

// Producer is who published the message with that sequence; empty if nothing of it
// is known.
func (x *Index) Producer(seq uint64) string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if seq > math.MaxUint32 {
		return ""
	}
	if k := x.from(uint32(seq)); k < len(x.messages) && x.messages[k].seq == uint32(seq) {
		return x.producers.list[x.rows.at(x.messages[k].row).producer]
	}
	return ""
}

func (x *Index) memberOf(g *group, r *row) Member {
	m := Member{Address: subjects.Address{Seq: uint64(r.seq), Index: int(r.index)}, Slot: subjects.Slot(r.slot), Attempt: subjects.Attempt(r.attempt),
		Status: statuses[r.status], Reward: float64(r.reward), Tokens: int(r.tokens), MinVersion: subjects.PolicyVersion(r.minVersion), MaxVersion: subjects.PolicyVersion(r.maxVersion),
		Producer: x.producers.list[r.producer], Advantage: math.NaN(), Masked: r.is(isMasked), Purged: uint64(r.seq) < x.purged, Step: subjects.Step(g.step)}
	if r.is(hasWeight) && g.step > 0 {
		m.Advantage = float64(r.advantage)
	}
	m.Member = g.counts(r)
	m.Used = r.is(isMember) && subjects.Outcome(outcomes[g.outcome]).Trained() || g.eval && trained(r.status)
	if !m.Used {
		m.Why = x.why(g, r)
	}
	return m
}

// why says why a trajectory was not used, as far as the index can tell.
func (x *Index) why(g *group, r *row) string {
	switch {
	case g.ledger == 0 && !g.eval && trained(r.status):
		return "the group is still open"
	case !trained(r.status):
		return fmt.Sprintf("it %s: such a trajectory is never trained on", statuses[r.status])
	case r.is(isMember):
		return fmt.Sprintf("its group was dropped: %s", Sentence(subjects.Outcome(outcomes[g.outcome])))
	}
	other := -1
	x.each(g, func(_ uint32, o *row) {
		if o.slot == r.slot && o.is(isMember) {
			other = int(o.attempt)
		}
	})
	if other >= 0 {
		return fmt.Sprintf("slot %d was filled by attempt %d", r.slot, other)
	}
	return "the group closed without it: it came too late, was one too many, or was rejected (dead letters say so)"
}

// Sentence says what an outcome means.
func Sentence(o subjects.Outcome) string {
	switch o {
	case subjects.Kept:
		return "every slot was filled and the rewards differ, so it goes into a batch"
	case subjects.Partial:
		return "it goes into a batch with fewer members than it asked for, at least the minimum"
	case subjects.ZeroVariance:
		return "all rewards are equal, so there is nothing to learn from it"
	case subjects.Expired:
		return "its deadline passed with fewer members than the minimum"
	case subjects.TooFew:
		return "too many of its slots failed for good"
	case subjects.Stale:
		return "it was older than the staleness bound when its batch was cut"
	case subjects.Cancelled:
		return "the run ended before its batch was cut"
	case "evaluated":
		return "it was measured in an evaluation, and is never trained on"
	case "open":
		return "it is open: the grouper has not decided yet"
	}
	return "the ledger has a verdict that this build does not know"
}
