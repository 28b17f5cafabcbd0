package regroup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/subjects"
)

// Version of the report; fields are only added.
const Version = 1

// Report says what another policy would have made of a run's rollouts.
type Report struct {
	V   int          `json:"v"`
	Run subjects.Run `json:"run"`
	// Own: the policy is the run's own.
	Own bool `json:"own"`
	// Entries of the ledger, and how many of them the policy gives byte for byte.
	Entries int `json:"entries"`
	Same    int `json:"same"`
	// Sound is what the audit of the recording says, in words Verdict.
	Sound   bool   `json:"sound"`
	Verdict string `json:"verdict"`

	Recorded  Account `json:"recorded"`
	Regrouped Account `json:"regrouped"`
	// FirstStep whose batches differ, 0 if none, and Why.
	FirstStep subjects.Step `json:"first_step,omitempty"`
	Why       string        `json:"why,omitempty"`
	// Changed counts the groups with another fate; Changes lists the first of them.
	Changed int      `json:"changed"`
	Changes []Change `json:"changes,omitempty"`
	// Unasked are trajectories that the policy never asked for; Open the groups
	// that it opened and that nothing recorded could close.
	Unasked int `json:"unasked"`
	Open    int `json:"open"`
}

// Account sums up a ledger.
type Account struct {
	Steps int `json:"steps"`
	// Groups by their last outcome; Trained are those in a batch.
	Groups       map[subjects.Outcome]int `json:"groups"`
	Trained      int                      `json:"trained_groups"`
	Trajectories int                      `json:"trained_trajectories"`
	Rows         int64                    `json:"rows"`
	Tokens       int64                    `json:"tokens"`
	// StalenessMean and RewardMean are means over batches.
	StalenessMean float64 `json:"staleness_mean"`
	StalenessMax  int64   `json:"staleness_max"`
	RewardMean    float64 `json:"reward_mean"`
	// WaitSeconds is how long the trainer waited for batches to be cut, summed up:
	// from when it was ready for the next one, what it did behind a commit included,
	// the first of each start left out. What then passes until it has the batch, and
	// its own reports count, is not in it. Under another policy it is as busy behind
	// a commit as it was.
	WaitSeconds float64 `json:"wait_seconds"`
	// Digest over the batches, in order.
	Digest string `json:"digest"`
}

// Change is a group with another fate.
type Change struct {
	Group    subjects.GroupID `json:"group"`
	Recorded Fate             `json:"recorded"`
	Now      Fate             `json:"now"`
}

// Fate is what became of a group: an outcome, or none, and the step that trained on it.
type Fate struct {
	Outcome subjects.Outcome `json:"outcome,omitempty"`
	Step    subjects.Step    `json:"step,omitempty"`
}

// String says it in words.
func (f Fate) String() string {
	switch {
	case f.Step > 0:
		return fmt.Sprintf("step %d", f.Step)
	case f.Outcome == "":
		return "open"
	}
	return strings.ReplaceAll(string(f.Outcome), "_", " ")
}

func (a *account) fate(g subjects.GroupID) Fate { return Fate{a.fates[g], a.trained[g]} }

// finish makes the report.
func (w *whatIf) finish() *Report {
	r := &w.report
	r.Recorded, r.Regrouped = w.before.public(), w.after.public()
	r.FirstStep, r.Why = firstDifference(w.before, w.after)
	groups := maps.Clone(w.recorded.groups)
	maps.Copy(groups, w.wanted.groups)
	maps.Copy(groups, flags(w.before.fates))
	maps.Copy(groups, flags(w.after.fates))
	for _, g := range slices.SortedFunc(maps.Keys(groups), byNumber) {
		was, is := w.before.fate(g), w.after.fate(g)
		if w.wanted.groups[g] && is == (Fate{}) {
			r.Open++
		}
		if was == is {
			continue
		}
		if r.Changed++; len(r.Changes) < w.o.Keep {
			r.Changes = append(r.Changes, Change{g, was, is})
		}
	}
	r.Unasked = len(w.held)
	return r
}

func flags(m map[subjects.GroupID]subjects.Outcome) map[subjects.GroupID]bool {
	out := make(map[subjects.GroupID]bool, len(m))
	for g := range m {
		out[g] = true
	}
	return out
}

// byNumber orders groups as they were issued: t2 before t10.
func byNumber(a, b subjects.GroupID) int {
	return cmp.Or(cmp.Compare(number(a), number(b)), strings.Compare(string(a), string(b)))
}

func number(g subjects.GroupID) uint64 {
	n, _ := strconv.ParseUint(strings.TrimLeft(string(g), "abcdefghijklmnopqrstuvwxyz"), 10, 64)
	return n
}

// firstDifference is the first step whose batches differ, and why.
func firstDifference(a, b *account) (subjects.Step, string) {
	for i := range min(len(a.steps), len(b.steps)) {
		x, y := &a.steps[i], &b.steps[i]
		if x.digest != y.digest {
			return x.step, reason(a, b, x, y)
		}
	}
	switch n, m := len(a.steps), len(b.steps); {
	case n < m:
		return b.steps[n].step, fmt.Sprintf("only the second has a batch of it: the first has %d steps", n)
	case n > m:
		return a.steps[m].step, fmt.Sprintf("only the first has a batch of it: the second has %d steps", m)
	}
	return 0, ""
}

// reason says why two batches differ: by a group, with what became of it on the
// other side, by a member, or by numbers alone.
func reason(a, b *account, x, y *shape) string {
	for _, g := range x.groups {
		if !slices.Contains(y.groups, g) {
			return fmt.Sprintf("group %s is in the first's batch only; in the second: %s", g, b.fate(g))
		}
	}
	for _, g := range y.groups {
		if !slices.Contains(x.groups, g) {
			return fmt.Sprintf("group %s is in the second's batch only; in the first: %s", g, a.fate(g))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(x.members)) {
		if !y.members[id] {
			return fmt.Sprintf("trajectory %s is in the first's batch only, of a group that both have", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(y.members)) {
		if !x.members[id] {
			return fmt.Sprintf("trajectory %s is in the second's batch only, of a group that both have", id)
		}
	}
	if !slices.Equal(x.groups, y.groups) {
		return "the same groups, in another order"
	}
	return "the same trajectories, with other advantages, versions or masks"
}
