package regroup

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"time"

	"github.com/headrace/headrace/subjects"
)

// account sums up a ledger.
type account struct {
	fates   map[subjects.GroupID]subjects.Outcome
	steps   []shape
	trained map[subjects.GroupID]subjects.Step
	applied map[subjects.Step]int64 // when the trainer had applied a step
	cut     map[subjects.Step]int64
	pauses  *pauses   // of the recorded trainer
	sum     hash.Hash // over the batches
	apart   bool      // it is compared with another run's
	err     error

	rows, tokens, stalest int64
	staleness, rewards    float64 // sums over batches
}

// shape is what of a batch two ledgers are compared by.
type shape struct {
	step    subjects.Step
	digest  [sha256.Size]byte
	members map[string]bool // of trajectories
	groups  []subjects.GroupID
}

func newAccount() *account {
	return &account{fates: map[subjects.GroupID]subjects.Outcome{}, trained: map[subjects.GroupID]subjects.Step{}, applied: map[subjects.Step]int64{},
		cut: map[subjects.Step]int64{}, pauses: &pauses{of: map[subjects.Step]int64{}}, sum: sha256.New()}
}

// pauses are what a trainer does between applying a step and asking for the next
// batch: it publishes weights, saves, logs.
type pauses struct {
	of   map[subjects.Step]int64 // before a step, nanoseconds; none before the first of a start
	last subjects.CommitEvent
	at   int64
}

// none: the step is the first of a start, whose wait is that for the run to come up.
const none = -1

func (p *pauses) commit(c *subjects.CommitEvent, at int64) {
	pause := int64(none)
	if p.last.Step > 0 && p.last.Step == c.Step-1 && p.last.Incarnation == c.Incarnation {
		pause = max(0, at-p.at-nanos(c.WaitSeconds)-nanos(c.TrainSeconds))
	}
	if _, again := p.of[c.Step]; !again {
		p.of[c.Step] = pause
	}
	p.last, p.at = *c, at
}

// nanos are those of a trainer's word, whatever it says.
func nanos(seconds float64) int64 {
	const most = 1e9 // seconds
	if !(seconds > 0) {
		return 0
	}
	return int64(min(seconds, most) * 1e9)
}

func (a *account) commit(s subjects.Step, at int64) {
	if _, again := a.applied[s]; !again {
		a.applied[s] = at
	}
}

func (a *account) entry(e *subjects.Entry) {
	for i := range e.Verdicts {
		a.fates[e.Verdicts[i].Group] = e.Verdicts[i].Outcome
	}
	for i := range e.Batches {
		a.batch(&e.Batches[i], e.At)
	}
}

func (a *account) batch(b *subjects.Batch, at int64) {
	a.cut[b.Step] = at
	a.rows, a.tokens = a.rows+int64(b.Rows), a.tokens+int64(b.Tokens)
	a.staleness, a.stalest, a.rewards = a.staleness+b.StalenessMean, max(a.stalest, b.StalenessMax), a.rewards+b.RewardMean
	s := shape{step: b.Step, members: map[string]bool{}}
	for i := range b.Groups {
		g := &b.Groups[i]
		s.groups = append(s.groups, g.Group)
		a.trained[g.Group] = b.Step
		for k := range g.Members {
			s.members[subjects.TrajectoryID(g.Group, g.Members[k].Slot, g.Members[k].Attempt)] = true
		}
	}
	data, err := subjects.EncodeMessage(a.comparable(b))
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("batch of step %d: %w", b.Step, err)
	}
	s.digest = sha256.Sum256(data)
	a.sum.Write(s.digest[:])
	a.steps = append(a.steps, s)
}

// comparable is a batch without what no trainer sees: the watermark and, between
// two runs, where their bodies lie.
func (a *account) comparable(b *subjects.Batch) *subjects.Batch {
	c := *b
	c.Watermark = 0
	if !a.apart {
		return &c
	}
	c.Groups = slices.Clone(b.Groups)
	for i := range c.Groups {
		c.Groups[i].Members = slices.Clone(c.Groups[i].Members)
		for k := range c.Groups[i].Members {
			m := &c.Groups[i].Members[k]
			m.Seq, m.Index, m.Offset, m.Length, m.Checksum = 0, 0, 0, 0, 0
		}
	}
	return &c
}

// waited is how long the trainer waited for a step's batch to be cut.
func (a *account) waited(step subjects.Step) time.Duration {
	applied, ok := a.applied[step-1]
	pause := a.pauses.of[step]
	if !ok || pause == none {
		return 0
	}
	return time.Duration(max(0, a.cut[step]-applied-pause))
}

// public is the account for people.
func (a *account) public() Account {
	p := Account{Steps: len(a.steps), Groups: map[subjects.Outcome]int{}, Rows: a.rows, Tokens: a.tokens, StalenessMax: a.stalest,
		Digest: "sha256:" + hex.EncodeToString(a.sum.Sum(nil))}
	for _, o := range a.fates {
		p.Groups[o]++
	}
	for _, s := range a.steps {
		p.Trained += len(s.groups)
		p.Trajectories += len(s.members)
		p.WaitSeconds += a.waited(s.step).Seconds()
	}
	if n := float64(len(a.steps)); n > 0 {
		p.StalenessMean, p.RewardMean = a.staleness/n, a.rewards/n
	}
	return p
}
