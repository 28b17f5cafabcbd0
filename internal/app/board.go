package app

import (
	"sort"
	"sync"
	"time"

	"github.com/headrace/headrace/subjects"
)

// Board is what is known of a run from its log: the source of the progress
// lines, the summary and `headrace show`. Its methods may be called by many
// goroutines.
type Board struct {
	mu sync.Mutex
	b  BoardState
}

// BoardState is a copy of the board's facts.
type BoardState struct {
	Started   time.Time
	FirstStep time.Time // when step 1 was committed
	MaxSteps  int64
	Cut       int64 // steps whose batch is in the ledger
	Steps     []StepFacts
	Evals     []subjects.EvalResult
	Outcomes  map[subjects.Outcome]int
	Issued    int // training groups
	Retries   int
	Version   subjects.PolicyVersion // newest announced
	Engines   map[string]subjects.AckEvent
	Resumed   int // trainer starts
	Gauges    map[string]subjects.Gauges
	Stall     subjects.Stall // without a code: the run moves
	End       string
	EndText   string
}

// StepFacts is one step: its batch and, once trained, its commit.
type StepFacts struct {
	Step          int64              `json:"step"`
	Groups        int                `json:"groups"`
	Rows          int                `json:"rows"`
	Tokens        int                `json:"tokens"`
	Reward        float64            `json:"reward"`
	StalenessMean float64            `json:"staleness_mean"`
	StalenessMax  int64              `json:"staleness_max"`
	Committed     bool               `json:"committed"`
	TrainSeconds  float64            `json:"train_seconds"`
	WaitSeconds   float64            `json:"wait_seconds"`
	Metrics       map[string]float64 `json:"metrics,omitempty"`
}

// NewBoard is an empty board for a run of maxSteps steps that was started then.
func NewBoard(started time.Time, maxSteps int64) *Board {
	return &Board{b: BoardState{
		Started: started, MaxSteps: maxSteps, Version: subjects.NoVersion,
		Outcomes: map[subjects.Outcome]int{}, Engines: map[string]subjects.AckEvent{}, Gauges: map[string]subjects.Gauges{},
	}}
}

// State is a copy of the facts as they are now.
func (b *Board) State() BoardState {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.b
	s.Steps = append([]StepFacts(nil), s.Steps...)
	s.Evals = append([]subjects.EvalResult(nil), s.Evals...)
	s.Outcomes = copyMap(s.Outcomes)
	s.Engines = copyMap(s.Engines)
	s.Gauges = copyMap(s.Gauges)
	return s
}

func copyMap[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// Entry folds a ledger entry in.
func (b *Board) Entry(e *subjects.Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range e.Issued {
		if i.Kind == subjects.Train {
			b.b.Issued += i.Count
		}
	}
	b.b.Retries += len(e.Retries)
	for _, v := range e.Verdicts {
		b.b.Outcomes[v.Outcome]++
	}
	for i := range e.Batches {
		b.batch(&e.Batches[i])
	}
	b.b.Evals = append(b.b.Evals, e.Evals...)
	sort.SliceStable(b.b.Evals, func(i, j int) bool { return b.b.Evals[i].Round < b.b.Evals[j].Round })
	if e.End != "" {
		b.b.End, b.b.EndText = e.End, e.EndText
	}
}

func (b *Board) batch(m *subjects.Batch) {
	b.b.Cut = max(b.b.Cut, int64(m.Step))
	s := b.step(int64(m.Step))
	s.Groups, s.Rows, s.Tokens, s.Reward = len(m.Groups), m.Rows, m.Tokens, m.RewardMean
	s.StalenessMean, s.StalenessMax = m.StalenessMean, m.StalenessMax
}

// step is the entry of a step, made if there is none.
func (b *Board) step(n int64) *StepFacts {
	for int64(len(b.b.Steps)) < n {
		b.b.Steps = append(b.b.Steps, StepFacts{Step: int64(len(b.b.Steps)) + 1})
	}
	return &b.b.Steps[n-1]
}

// maxBoardStep bounds what a forged event can make the board allocate.
const maxBoardStep = 1 << 24

// Commit folds a trainer's commit in.
func (b *Board) Commit(e *subjects.CommitEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Step < 1 || e.Step > maxBoardStep {
		return
	}
	s := b.step(int64(e.Step))
	s.Committed, s.TrainSeconds, s.WaitSeconds, s.Metrics = true, e.TrainSeconds, e.WaitSeconds, e.Metrics
	if b.b.FirstStep.IsZero() {
		b.b.FirstStep = time.Unix(0, e.At)
	}
}

// Version folds a weights announcement in.
func (b *Board) Version(e *subjects.VersionEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Version = e.Version
}

// ResumedTrainer folds a trainer's start in.
func (b *Board) ResumedTrainer(*subjects.ResumedEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Resumed++
}

// Ack folds an engine's answer to a version in.
func (b *Board) Ack(e *subjects.AckEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Engines[e.Engine] = *e
}

// Report folds a role's gauges in.
func (b *Board) Report(g *subjects.Gauges) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Gauges[g.Role+"/"+g.Instance] = *g
}

// Stands folds the watchdog's report in.
func (b *Board) Stands(s *subjects.Stall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Stall = *s
}

// Committed is the last step the trainer applied.
func (s *BoardState) Committed() int64 {
	for i := len(s.Steps) - 1; i >= 0; i-- {
		if s.Steps[i].Committed {
			return s.Steps[i].Step
		}
	}
	return 0
}

// Recent averages a fact over the last n committed steps; ok is false without one.
func (s *BoardState) Recent(n int, fact func(*StepFacts) float64) (mean float64, ok bool) {
	sum, count := 0.0, 0
	for i := len(s.Steps) - 1; i >= 0 && count < n; i-- {
		if s.Steps[i].Committed {
			sum += fact(&s.Steps[i])
			count++
		}
	}
	if count == 0 {
		return 0, false
	}
	return sum / float64(count), true
}

// WaitFraction is the share of the trainer's time that it waited for a batch,
// over all committed steps but the first, whose wait is the run's start.
func (s *BoardState) WaitFraction() float64 {
	wait, busy := 0.0, 0.0
	for i := range s.Steps {
		if i > 0 && s.Steps[i].Committed {
			wait += s.Steps[i].WaitSeconds
			busy += s.Steps[i].TrainSeconds
		}
	}
	if wait+busy == 0 {
		return 0
	}
	return wait / (wait + busy)
}
