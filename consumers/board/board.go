package board

import (
	"math"
	"sync"
	"time"

	"github.com/headrace/headrace/subjects"
)

// Config is what a board is told before anything is folded in.
type Config struct {
	Run          subjects.Run
	Recipe       string
	Environments []string
	Started      time.Time
	// MaxSteps is the recipe's, 0: until the dataset ends. MaxStaleness bounds a
	// batch's oldest token, in steps.
	MaxSteps     int64
	MaxStaleness int64
	// Advise, if set, says what limits a run, the most limiting first. It may not
	// keep what it is given, nor call the board.
	Advise func(*View) []Advice
}

// Board is a run's picture as it grows. Its methods may be called by many
// goroutines.
type Board struct {
	mu  sync.Mutex
	cfg Config

	end, endText string
	cut          int64
	evals        []Eval
	steps        steps
	trainer      trainer
	groups       groups
	engines      engines
	producers    producers
	account      account
	bridge       bridge
	roles        roles
	syncs        []Sync // oldest first
	streams      map[subjects.Stream]Size
	stall        subjects.Stall
	series       series
	advice       []Advice
	heard        float64 // newest report of any role
}

// Size is what a stream holds.
type Size struct {
	Messages, Bytes uint64
}

// New is an empty board.
func New(cfg Config) *Board {
	b := &Board{cfg: cfg, streams: map[subjects.Stream]Size{}, heard: math.NaN()}
	b.trainer.version = int64(subjects.NoVersion)
	b.groups = newGroups()
	b.engines = newEngines()
	b.producers = newProducers()
	b.roles = newRoles()
	return b
}

const mostEvals = 1 << 12

// Entry folds a ledger entry in.
func (b *Board) Entry(e *subjects.Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := unix(e.At)
	for _, i := range e.Issued {
		if i.Kind == subjects.Train {
			b.groups.issued += int64(max(i.Count, 0))
		}
	}
	b.groups.retries += int64(len(e.Retries))
	for i := range e.Verdicts {
		b.groups.verdict(&e.Verdicts[i])
	}
	for i := range e.Batches {
		m := &e.Batches[i]
		b.cut = max(b.cut, b.batch(m, at))
	}
	for i := range e.Evals {
		b.evaluated(&e.Evals[i], at)
	}
	if e.End != "" {
		b.end, b.endText = clip(e.End), clipText(e.EndText)
	}
}

// batch folds a batch in and returns its step, 0 if it is none.
func (b *Board) batch(m *subjects.Batch, at float64) int64 {
	if b.steps.cut(m, at, b.groups.closed.zeroVariance) == nil {
		return 0
	}
	b.groups.cut(m)
	return int64(m.Step)
}

func (b *Board) evaluated(e *subjects.EvalResult, at float64) {
	v := Eval{Round: int64(e.Round), Tasks: e.Tasks, Sampled: Number(e.Sampled), Greedy: Number(e.Greedy), Failed: e.Failed, At: Number(at),
		MinVersion: int64(e.MinVersion), MaxVersion: int64(e.MaxVersion)}
	i := len(b.evals)
	for i > 0 && b.evals[i-1].Round > v.Round {
		i--
	}
	b.evals = append(b.evals, Eval{})
	copy(b.evals[i+1:], b.evals[i:])
	b.evals[i] = v
	if len(b.evals) > mostEvals {
		b.evals = append([]Eval(nil), b.evals[len(b.evals)-mostEvals/2:]...)
	}
}

// Commit folds a trainer's commit in.
func (b *Board) Commit(e *subjects.CommitEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.steps.row(int64(e.Step))
	if r == nil {
		return
	}
	b.trainer.commit(e, r)
	b.steps.measure(r, e.Metrics)
	b.steps.touch(int64(e.Step))
}

// Version folds a weights announcement in.
func (b *Board) Version(e *subjects.VersionEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trainer.version = int64(e.Version)
}

// ResumedTrainer folds a trainer's start in.
func (b *Board) ResumedTrainer(*subjects.ResumedEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trainer.starts++
}

// Checkpoint folds a checkpoint in.
func (b *Board) Checkpoint(e *subjects.CheckpointEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trainer.checkpoint = int64(e.Step)
}

const mostSyncs = 50

// Ack folds an engine's answer to a version in.
func (b *Board) Ack(e *subjects.AckEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !subjects.ValidToken(e.Engine) {
		return
	}
	if len(b.syncs) == 2*mostSyncs {
		b.syncs = append(b.syncs[:0], b.syncs[mostSyncs:]...)
	}
	b.syncs = append(b.syncs, Sync{Version: int64(e.Version), Engine: e.Engine, At: Number(unix(e.At)), Pause: Number(e.PauseSeconds), Load: Number(e.LoadSeconds),
		Verify: Number(e.VerifySeconds), Resume: Number(e.ResumeSeconds), Error: clipText(e.Error),
		Seconds: Number(e.PauseSeconds + e.LoadSeconds + e.VerifySeconds + e.ResumeSeconds)})
	if e.Error == "" {
		b.engines.serves(e.Engine, int64(e.Version))
	}
}

// Engines takes the run's engine registry over, as it is now.
func (b *Board) Engines(list []subjects.EngineRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.engines.registered(list)
}

// Streams takes over what the streams hold now.
func (b *Board) Streams(sizes map[subjects.Stream]Size) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range subjects.Streams() {
		if n, ok := sizes[s]; ok {
			b.streams[s] = n
		}
	}
}

// Report folds a role's gauges in, which came at that time.
func (b *Board) Report(g *subjects.Gauges, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := unix(at.UnixNano())
	if !subjects.ValidToken(g.Role) || !subjects.ValidToken(g.Instance) {
		return
	}
	b.tick(now)
	if !(b.heard >= now) {
		b.heard = now
	}
	b.roles.heard(g, now)
	switch g.Role {
	case "grouper":
		b.account.report(g, now)
	case "bridge":
		b.bridge.report(g, now)
		b.trainer.pends(g, now)
	case "engine":
		b.engines.report(g, now, b.trainer.firstAt)
	case "produce":
		b.producers.report(g, now, b.trainer.firstAt)
	}
}

// Spans folds in what the trainer did, which came at that time. Other roles' spans are left out.
func (b *Board) Spans(batch *subjects.SpanBatch, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trainer.spans(batch, unix(at.UnixNano()))
}

// Stands folds the watchdog's report in.
func (b *Board) Stands(s *subjects.Stall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stall = *s
	b.stall.Text, b.stall.Stage, b.stall.Code = clipText(s.Text), clip(s.Stage), subjects.StallCode(clip(string(s.Code)))
}

// Steps are the steps from a number on.
func (b *Board) Steps(from int64) Steps {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.steps.columns(from)
}

// StepsSince are the rows from the first that changed since a mark on, and the
// new mark; the mark 0 is the run's start.
func (b *Board) StepsSince(mark int64) (Steps, int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &b.steps
	missed := t.changes - mark
	switch {
	case mark <= 0 || missed > int64(len(t.changed)):
		return t.columns(0), t.changes
	case missed <= 0:
		return t.columns(math.MaxInt64), t.changes
	}
	from := int64(math.MaxInt64)
	for _, n := range t.changed[int64(len(t.changed))-missed:] {
		from = min(from, n)
	}
	return t.columns(from), t.changes
}

// unix is a time in nanoseconds as seconds; nonsense becomes unknown.
func unix(nanos int64) float64 {
	if nanos <= 0 {
		return math.NaN()
	}
	return float64(nanos) / 1e9
}

const longestText = 1 << 10 // bytes of a sentence that is kept

func clip(s string) string { return cutText(s, longestName) }

func clipText(s string) string { return cutText(s, longestText) }
