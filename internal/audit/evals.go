package audit

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/subjects"
)

// evals keeps the account of evaluation: what was played, measured, of no use.
type evals struct {
	*auditor
	cfg    grouper.Evaluation
	rounds map[subjects.Step]*round
	closed subjects.Step // newest round that closed or is open
	holes  bool
}

// round is an evaluation that is not finished.
type round struct {
	tasks int
	came  [][]arrival // by episode
}

type arrival struct {
	seq     uint64
	index   int
	attempt subjects.Attempt
	status  subjects.Status
}

func newEvals(a *auditor) *evals {
	return &evals{auditor: a, cfg: a.o.Policy.Grouper.WithDefaults().Evaluation, rounds: map[subjects.Step]*round{}, closed: -1}
}

func (v *evals) hole() { v.holes = true }

// maxEpisodes bounds what an edited ledger can make an audit allocate.
const maxEpisodes = 1 << 24

func (v *evals) entry(seq uint64, e *subjects.Entry) {
	for i := range e.Evals {
		v.result(seq, &e.Evals[i])
	}
	for _, is := range e.Issued {
		if n := is.Count * v.cfg.Episodes(); is.Kind == subjects.Eval && n > 0 && n <= maxEpisodes {
			v.rounds[is.Round] = &round{tasks: is.Count, came: make([][]arrival, n)}
			v.closed = max(v.closed, is.Round)
		}
	}
	if e.End != "" {
		v.rest("cancelled")
	}
}

// arrive notes a trajectory of an evaluation.
func (v *evals) arrive(seq uint64, index int, it *item) {
	e := &it.entry
	i, err := strconv.Atoi(string(e.Group[strings.LastIndexByte(string(e.Group), '-')+1:]))
	r, n := v.rounds[e.Round], i*v.cfg.Episodes()+int(e.Slot)
	switch {
	case r == nil && e.Round > v.closed, err != nil:
		v.report.Evaluation.drop("unknown", 1)
	case r == nil:
		v.report.Evaluation.drop("late", 1)
	case i < 0 || int(e.Slot) >= v.cfg.Episodes() || n >= len(r.came):
		v.report.Evaluation.drop("unknown", 1)
	default:
		r.came[n] = append(r.came[n], arrival{seq, index, e.Attempt, e.Status})
	}
}

// result closes a round. An imported run's results are the file's word: nobody
// issued its rounds there.
func (v *evals) result(seq uint64, e *subjects.EvalResult) {
	r := v.rounds[e.Round]
	if r == nil {
		if !v.holes && !v.o.Policy.Imported {
			v.report.add(Discrepancy{Check: CheckGroups, Kind: Duplicated, Text: fmt.Sprintf("ledger entry %d: evaluation of step %d has a result and is not open", seq, e.Round),
				Stream: v.stream(subjects.Ledger), Seq: seq})
		}
		return
	}
	delete(v.rounds, e.Round)
	used := v.settle(r)
	v.report.Evaluation.Used += used
	if want := uint64(len(r.came) - e.Failed); used != want && !v.holes {
		v.report.add(Discrepancy{Check: CheckGroups, Kind: Short, Count: 1, Text: fmt.Sprintf(
			"ledger entry %d: the evaluation of step %d is of %d episodes, the log has %d", seq, e.Round, want, used), Stream: v.stream(subjects.Ledger), Seq: seq})
	}
}

// settle sorts what came to a round and returns how many episodes have a result.
func (v *evals) settle(r *round) (used uint64) {
	a := &v.report.Evaluation
	for _, came := range r.came {
		filled, attempts := false, map[subjects.Attempt]bool{}
		for _, t := range came {
			switch {
			case attempts[t.attempt]:
				a.drop(string(grouper.ReasonDuplicate), 1)
			case t.status == subjects.Aborted:
				a.drop(string(grouper.ReasonAborted), 1)
			case !t.status.Trained():
				a.drop(string(grouper.ReasonFailed), 1)
			case v.letters.rejected(t.seq, t.index):
				a.drop(string(grouper.ReasonRejected), 1)
			case filled:
				a.drop(string(grouper.ReasonDuplicate), 1)
			default:
				filled = true
				used++
			}
			attempts[t.attempt] = true
		}
	}
	return used
}

// rest settles the rounds that are open: their episodes are so too, or were
// given up with the run.
func (v *evals) rest(why string) {
	for step, r := range v.rounds {
		n := v.settle(r)
		if why == "" {
			v.report.Evaluation.Open += n
		} else {
			v.report.Evaluation.drop(why, n)
		}
		delete(v.rounds, step)
	}
}
