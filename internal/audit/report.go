package audit

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/subjects"
)

// Version of the report's JSON. Fields are only added.
const Version = 1

// Report is what an audit found. docs/operations.md describes its JSON.
type Report struct {
	V   int          `json:"v"`
	Run subjects.Run `json:"run"`
	// OK: no discrepancy. Verdict says it in a sentence.
	OK      bool   `json:"ok"`
	Verdict string `json:"verdict"`
	Cut     Cut    `json:"cut"`

	// Lost counts messages and trajectories that were acknowledged and are not
	// there, or not as they were; Duplicated what was trained or decided twice;
	// Mixed groups with a trajectory that is not theirs; Short groups with fewer
	// members than their verdict or policy says; Wrong all other discrepancies.
	Lost       int `json:"lost"`
	Duplicated int `json:"duplicated"`
	Mixed      int `json:"mixed"`
	Short      int `json:"short"`
	Wrong      int `json:"wrong"`

	Training   Account `json:"training"`
	Evaluation Account `json:"evaluation"`

	Checks []*Check `json:"checks"`
	// Discrepancies are the first of each check.
	Discrepancies []Discrepancy `json:"discrepancies"`
	// Notes are what is no discrepancy and worth knowing: what can no longer be
	// proved, for the most part.
	Notes []string `json:"notes"`

	Bytes   int64   `json:"bytes"` // of bodies
	Seconds float64 `json:"seconds"`

	keep   int
	byName map[string]*Check
	noted  map[string]bool
}

// Cut is what was audited: the last sequences of the streams.
type Cut struct {
	At         time.Time `json:"at"`
	Ledger     uint64    `json:"ledger"`
	Rollouts   uint64    `json:"rollouts"`
	Weights    uint64    `json:"weights"`
	DeadLetter uint64    `json:"deadletter"`
	// Folded is the last ROLLOUTS sequence that the ledger's head rests on; what
	// lies above it is counted as open, or as what it will come to.
	Folded uint64 `json:"folded"`
	// Purged: ROLLOUTS below it was purged on purpose, says the run's log; 0: nothing.
	Purged uint64 `json:"purged,omitempty"`
	// Ended is why the run ended; empty: it goes on.
	Ended string `json:"ended,omitempty"`
}

// Account is what became of trajectories: Produced = Used + all of Dropped + Open.
type Account struct {
	Produced uint64 `json:"produced"`
	// Used is what was trained on, or measured.
	Used    uint64            `json:"used"`
	Dropped map[string]uint64 `json:"dropped"`
	Open    uint64            `json:"open"`
	// Balanced: the equation holds, and Produced is what the log has.
	Balanced bool `json:"balanced"`
}

func (a *Account) drop(why string, n uint64) {
	if n > 0 {
		a.Dropped[why] += n
	}
}

// dropped is the sum over reasons.
func (a *Account) dropped() (n uint64) {
	for _, k := range a.Dropped {
		n += k
	}
	return n
}

// The checks, in the order of the report.
const (
	CheckStreams   = "streams"   // every sequence is there, or was purged on record
	CheckBodies    = "bodies"    // checksum, structure, agreement with the index
	CheckProducers = "producers" // what producers were acknowledged is there
	CheckGroups    = "groups"    // closed once, whole, of their own trajectories alone
	CheckBatches   = "batches"   // steps in order, groups as they closed, advantages, nothing used twice
	CheckLedger    = "ledger"    // every entry decided again, byte for byte
	CheckTrainer   = "trainer"   // no step twice or skipped, resumed where a checkpoint was
	CheckAccount   = "account"   // produced = trained + dropped + open
)

// Check is one line of the report.
type Check struct {
	Name string `json:"name"`
	// Checked things of a Unit, Found discrepancies among them.
	Checked uint64 `json:"checked"`
	Unit    string `json:"unit"`
	Found   int    `json:"found"`
	// Unproven things could not be checked: Notes say why.
	Unproven uint64 `json:"unproven"`
}

// Kind says what a discrepancy counts as.
type Kind string

// The kinds of discrepancies.
const (
	Lost       Kind = "lost"
	Duplicated Kind = "duplicated"
	Mixed      Kind = "mixed"
	Short      Kind = "short"
	Wrong      Kind = "wrong"
)

// Discrepancy is one thing that is not as it must be.
type Discrepancy struct {
	Check string `json:"check"`
	Kind  Kind   `json:"kind"`
	// Count of what it stands for: missing messages, most of all.
	Count int    `json:"count"`
	Text  string `json:"text"`
	// Where it is, as far as it has a place.
	Stream     string           `json:"stream,omitempty"`
	Seq        uint64           `json:"seq,omitempty"`
	Group      subjects.GroupID `json:"group,omitempty"`
	Step       subjects.Step    `json:"step,omitempty"`
	Trajectory string           `json:"trajectory,omitempty"`
	// Look is a command that shows the place.
	Look string `json:"look,omitempty"`
}

func newReport(run subjects.Run, keep int, c *cut) *Report {
	r := &Report{V: Version, Run: run, keep: keep, byName: map[string]*Check{}, noted: map[string]bool{}, Discrepancies: []Discrepancy{}, Notes: []string{},
		Training: Account{Dropped: map[string]uint64{}}, Evaluation: Account{Dropped: map[string]uint64{}}}
	for _, k := range [][2]string{{CheckStreams, "messages"}, {CheckBodies, "bodies"}, {CheckProducers, "messages"}, {CheckGroups, "groups"},
		{CheckBatches, "members"}, {CheckLedger, "entries"}, {CheckTrainer, "events"}, {CheckAccount, "trajectories"}} {
		check := &Check{Name: k[0], Unit: k[1]}
		r.Checks = append(r.Checks, check)
		r.byName[k[0]] = check
	}
	if c != nil {
		r.Cut = c.public()
	}
	return r
}

// checked counts things that a check looked at.
func (r *Report) checked(check string, n uint64) { r.byName[check].Checked += n }

// unproven counts things that a check could not look at, and why.
func (r *Report) unproven(check string, n uint64, why string) {
	r.byName[check].Unproven += n
	r.note(why)
}

// note says something once.
func (r *Report) note(text string) {
	if text != "" && !r.noted[text] {
		r.noted[text] = true
		r.Notes = append(r.Notes, text)
	}
}

// add counts a discrepancy, and keeps it if it is one of the first.
func (r *Report) add(d Discrepancy) {
	d.Count = max(d.Count, 1)
	switch d.Kind {
	case Lost:
		r.Lost += d.Count
	case Duplicated:
		r.Duplicated += d.Count
	case Mixed:
		r.Mixed += d.Count
	case Short:
		r.Short += d.Count
	default:
		r.Wrong += d.Count
	}
	c := r.byName[d.Check]
	if c.Found++; c.Found > r.keep {
		return
	}
	d.Look = r.look(&d)
	r.Discrepancies = append(r.Discrepancies, d)
}

// look is a command that shows where a discrepancy is.
func (r *Report) look(d *Discrepancy) string {
	switch {
	case d.Trajectory != "" && d.Kind != Lost:
		return fmt.Sprintf("headrace show %s trajectory %s", r.Run, d.Trajectory)
	case d.Step > 0:
		return fmt.Sprintf("headrace show %s step %d", r.Run, d.Step)
	case d.Group != "":
		return fmt.Sprintf("headrace show %s group %s", r.Run, d.Group)
	case d.Stream != "" && d.Seq > 0:
		return fmt.Sprintf("nats stream get %s %d", d.Stream, d.Seq)
	}
	return "headrace show " + string(r.Run)
}

// found is the number of discrepancies.
func (r *Report) found() (n int) {
	for _, c := range r.Checks {
		n += c.Found
	}
	return n
}

// finish says the verdict.
func (r *Report) finish(began time.Time) *Report {
	r.Seconds = time.Since(began).Seconds()
	n := r.found()
	r.OK = n == 0
	switch {
	case n > 0:
		r.Verdict = fmt.Sprintf("%d found: %d lost, %d duplicated, %d mixed, %d short, %d otherwise wrong", n, r.Lost, r.Duplicated, r.Mixed, r.Short, r.Wrong)
	case r.unprovenAll() > 0:
		r.Verdict = "nothing lost, duplicated or mixed, as far as the log can still tell"
	default:
		r.Verdict = "nothing lost, nothing trained twice, no group mixed"
	}
	return r
}

func (r *Report) unprovenAll() (n uint64) {
	for _, c := range r.Checks {
		n += c.Unproven
	}
	return n
}

// reasons names the grouper's reasons as they stand in the account.
func reasons(s grouper.Stats) map[string]uint64 {
	out := map[string]uint64{}
	for k, n := range s.Dropped {
		if n > 0 {
			out[string(k)] = n
		}
	}
	return out
}
