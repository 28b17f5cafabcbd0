package board

import (
	"math"
	"slices"
	"sort"

	"github.com/headrace/headrace/subjects"
)

const (
	mostSteps    = 1 << 18 // rows; beyond it the oldest quarter is forgotten
	mostGap      = 1 << 10 // a step this far beyond the last is no step
	mostMetrics  = 32
	longestName  = 64
	mostChanges  = 1 << 10 // remembered for who asks what is new
	medianSteps  = 20
	recentSteps  = 10
	staleBatches = 50
)

// Steps are the steps of a run as columns of equal length, oldest first.
type Steps struct {
	Step          []int64           `json:"step"`
	At            Column            `json:"at"`
	Reward        Column            `json:"reward"`
	RewardStd     Column            `json:"reward_std"` // over the batch's members
	Groups        []int64           `json:"groups"`
	Rows          []int64           `json:"rows"`
	Tokens        []int64           `json:"tokens"`
	StalenessMean Column            `json:"staleness_mean"`
	StalenessMax  []int64           `json:"staleness_max"`
	TrainSeconds  Column            `json:"train_seconds"`
	WaitSeconds   Column            `json:"wait_seconds"`
	ZeroVariance  []int64           `json:"zero_variance"` // groups dropped for it since the batch before
	Committed     []bool            `json:"committed"`
	Metrics       map[string]Column `json:"metrics"`
}

// Len is the number of rows.
func (s *Steps) Len() int { return len(s.Step) }

// Recent is the mean of a column over the last n committed steps.
func (s *Steps) Recent(n int, column Column) (mean float64, ok bool) {
	sum, count := 0.0, 0
	for i := len(s.Step) - 1; i >= 0 && count < n; i-- {
		if s.Committed[i] && i < len(column) && known(column[i]) {
			sum += column[i]
			count++
		}
	}
	return sum / float64(max(count, 1)), count > 0
}

// row is one step. What is unknown is NaN; metrics are by place in the names.
type row struct {
	cutAt, committedAt float64
	reward, std        float32
	staleMean          float32
	train, wait, wall  float32
	groups, rows       int32
	staleMax, zero     int32
	tokens             int64
	committed          bool
	metrics            []float32
}

// steps is the table: row i is step first+i.
type steps struct {
	first int64
	rows  []row
	names []string // of the metrics

	changes int64   // ever made
	changed []int64 // the steps of the last of them
}

// row finds the row of a step, made if it is the next one or little further; nil
// for a number that no step can have.
func (t *steps) row(n int64) *row {
	if t.first == 0 {
		t.first = 1
	}
	end := t.first + int64(len(t.rows))
	if n < t.first || n >= end+mostGap {
		return nil
	}
	for ; end <= n; end++ {
		t.rows = append(t.rows, emptyRow())
	}
	if len(t.rows) > mostSteps {
		forget := int64(len(t.rows) / 4)
		t.rows = slices.Clone(t.rows[forget:])
		if t.first += forget; n < t.first {
			return nil
		}
	}
	return &t.rows[n-t.first]
}

func emptyRow() row {
	nan := float32(math.NaN())
	return row{cutAt: math.NaN(), committedAt: math.NaN(), reward: nan, std: nan, staleMean: nan, train: nan, wait: nan, wall: nan}
}

func (t *steps) touch(n int64) {
	t.changes++
	if len(t.changed) == mostChanges {
		t.changed = slices.Clone(t.changed[mostChanges/2:])
	}
	t.changed = append(t.changed, n)
}

// measure takes the metrics of a commit over, as far as there is room for names.
func (t *steps) measure(r *row, m map[string]float64) {
	names := make([]string, 0, min(len(m), 4*mostMetrics))
	for name := range m {
		if len(name) <= longestName && len(names) < cap(names) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	r.metrics = r.metrics[:0]
	for _, name := range names {
		i := slices.Index(t.names, name)
		if i < 0 && len(t.names) < mostMetrics {
			i, t.names = len(t.names), append(t.names, name)
		}
		if i < 0 {
			continue
		}
		for len(r.metrics) <= i {
			r.metrics = append(r.metrics, float32(math.NaN()))
		}
		r.metrics[i] = float32(m[name])
	}
}

// columns are the rows from a step on.
func (t *steps) columns(from int64) Steps {
	i := int(min(max(from-max(t.first, 1), 0), int64(len(t.rows))))
	n := len(t.rows) - i
	s := Steps{Step: make([]int64, n), At: make(Column, n), Reward: make(Column, n), RewardStd: make(Column, n), Groups: make([]int64, n), Rows: make([]int64, n),
		Tokens: make([]int64, n), StalenessMean: make(Column, n), StalenessMax: make([]int64, n), TrainSeconds: make(Column, n), WaitSeconds: make(Column, n),
		ZeroVariance: make([]int64, n), Committed: make([]bool, n), Metrics: make(map[string]Column, len(t.names))}
	for _, name := range t.names {
		s.Metrics[name] = make(Column, n)
	}
	for k := range n {
		r := &t.rows[i+k]
		s.Step[k], s.At[k] = t.first+int64(i+k), r.at()
		s.Reward[k], s.RewardStd[k], s.StalenessMean[k] = float64(r.reward), float64(r.std), float64(r.staleMean)
		s.Groups[k], s.Rows[k], s.Tokens[k], s.StalenessMax[k] = int64(r.groups), int64(r.rows), r.tokens, int64(r.staleMax)
		s.TrainSeconds[k], s.WaitSeconds[k], s.ZeroVariance[k], s.Committed[k] = float64(r.train), float64(r.wait), int64(r.zero), r.committed
		for m, name := range t.names {
			s.Metrics[name][k] = r.metric(m)
		}
	}
	return s
}

func (r *row) at() float64 {
	if known(r.committedAt) {
		return r.committedAt
	}
	return r.cutAt
}

func (r *row) metric(i int) float64 {
	if i < len(r.metrics) {
		return float64(r.metrics[i])
	}
	return math.NaN()
}

// cut folds a batch in.
func (t *steps) cut(m *subjects.Batch, at float64, zero int64) *row {
	r := t.row(int64(m.Step))
	if r == nil {
		return nil
	}
	r.cutAt, r.zero = at, int32(min(zero, math.MaxInt32))
	r.groups, r.rows, r.tokens = int32(len(m.Groups)), int32(min(max(m.Rows, 0), math.MaxInt32)), int64(max(m.Tokens, 0))
	r.reward, r.staleMean = float32(m.RewardMean), float32(m.StalenessMean)
	r.staleMax = int32(min(max(m.StalenessMax, 0), math.MaxInt32))
	r.std = float32(deviation(m))
	t.touch(int64(m.Step))
	return r
}

// deviation is the standard deviation of the rewards of a batch's members.
func deviation(m *subjects.Batch) float64 {
	n, mean, sum := 0.0, 0.0, 0.0
	for i := range m.Groups {
		for j := range m.Groups[i].Members {
			x := m.Groups[i].Members[j].Reward
			n++
			d := x - mean
			mean += d / n
			sum += d * (x - mean)
		}
	}
	return math.Sqrt(sum / n)
}
