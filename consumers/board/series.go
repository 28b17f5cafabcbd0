package board

import "math"

const (
	fineSeconds, coarseSeconds = 600, 43200
	coarseStep                 = 10
	pointSpan                  = 4 // seconds that a point's rates are of: reports jitter
)

// Series is how the run went, as columns of equal length, oldest first.
type Series struct {
	// N counts the points of one second that there were before the last of these.
	N             int64  `json:"n"`
	At            Column `json:"at"`
	Trajectories  Column `json:"trajectories_per_second"`
	Tokens        Column `json:"tokens_per_second"`
	TrainedTokens Column `json:"trained_tokens_per_second"`
	TrainerWait   Column `json:"trainer_wait"`
	EngineBusy    Column `json:"engine_busy"`
	OpenGroups    Column `json:"open_groups"`
	KeptGroups    Column `json:"kept_groups"`
	BatchesReady  Column `json:"batches_ready"`
	InFlight      Column `json:"in_flight"`
	Staleness     Column `json:"staleness"`
}

// Point is one second of a series; N counts them.
type Point struct {
	N             int64  `json:"n"`
	At            Number `json:"at"`
	Trajectories  Number `json:"trajectories_per_second"`
	Tokens        Number `json:"tokens_per_second"`
	TrainedTokens Number `json:"trained_tokens_per_second"`
	TrainerWait   Number `json:"trainer_wait"`
	EngineBusy    Number `json:"engine_busy"`
	OpenGroups    Number `json:"open_groups"`
	KeptGroups    Number `json:"kept_groups"`
	BatchesReady  Number `json:"batches_ready"`
	InFlight      Number `json:"in_flight"`
	Staleness     Number `json:"staleness"`
}

const pointFields = 11

// values is a point without its number.
type values [pointFields]float64

func (v *values) point(n int64) Point {
	return Point{n, Number(v[0]), Number(v[1]), Number(v[2]), Number(v[3]), Number(v[4]), Number(v[5]), Number(v[6]), Number(v[7]), Number(v[8]), Number(v[9]), Number(v[10])}
}

// series has a point a second for ten minutes and means of ten seconds for
// twelve hours.
type series struct {
	second float64 // that is not over
	made   int64   // points ever
	fine   []values
	coarse []values
	mean   mean
	cursor int64 // the last step that was committed by then
}

func (s *series) add(v values) {
	s.made++
	if len(s.fine) == 2*fineSeconds {
		s.fine = append(s.fine[:0], s.fine[fineSeconds:]...)
	}
	s.fine = append(s.fine, v)
	if bucket := math.Floor(v[0] / coarseStep); bucket != s.mean.bucket {
		if s.mean.counts[0] > 0 {
			if len(s.coarse) == 2*coarseSeconds/coarseStep {
				s.coarse = append(s.coarse[:0], s.coarse[coarseSeconds/coarseStep:]...)
			}
			s.coarse = append(s.coarse, s.mean.values())
		}
		s.mean = mean{bucket: bucket}
	}
	s.mean.add(&v)
}

// mean is that of the points of ten seconds, of what is known in them.
type mean struct {
	bucket float64
	sums   values
	counts [pointFields]float64
}

func (m *mean) add(v *values) {
	for i, x := range v {
		if known(x) {
			m.sums[i] += x
			m.counts[i]++
		}
	}
}

func (m *mean) values() (out values) {
	for i := range out {
		out[i] = m.sums[i] / m.counts[i]
	}
	out[0] = m.bucket * coarseStep
	return out
}

// Series is the run's last span seconds: points of a second up to ten minutes,
// means of ten seconds up to twelve hours.
func (b *Board) Series(span int) Series {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.series.columns(span)
}

func (s *series) columns(span int) Series {
	rows, step := s.fine, 1
	if span > fineSeconds {
		rows, step = s.coarse, coarseStep
		if s.mean.counts[0] > 0 {
			rows = append(append([]values(nil), rows...), s.mean.values())
		}
	}
	rows = rows[max(0, len(rows)-min(max(span, 1), coarseSeconds)/step):]
	out := Series{N: s.made}
	for i, c := range out.columns() {
		*c = make(Column, len(rows))
		for k := range rows {
			(*c)[k] = rows[k][i]
		}
	}
	return out
}

func (s *Series) columns() []*Column {
	return []*Column{&s.At, &s.Trajectories, &s.Tokens, &s.TrainedTokens, &s.TrainerWait, &s.EngineBusy, &s.OpenGroups, &s.KeptGroups, &s.BatchesReady, &s.InFlight, &s.Staleness}
}

// until is the series up to a time.
func (s Series) until(at float64) Series {
	n := len(s.At)
	for n > 0 && s.At[n-1] > at {
		n--
	}
	for _, c := range s.columns() {
		*c = (*c)[:n]
	}
	return s
}

// PointsSince are the points of one second behind the n-th, as far as they are
// remembered.
func (b *Board) PointsSince(n int64) []Point {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.series
	from := max(n, s.made-int64(len(s.fine)), 0)
	var out []Point
	for ; from < s.made; from++ {
		out = append(out, s.fine[int64(len(s.fine))-(s.made-from)].point(from+1))
	}
	return out
}

// tick is called with the time of every report, before it is folded in.
func (b *Board) tick(now float64) {
	s := &b.series
	second := math.Floor(now)
	switch {
	case s.second == 0 || second > s.second+coarseSeconds:
		s.second = second
	case second > s.second:
		s.add(b.point(s.second + 1))
		s.second = second
	}
}

// point is the second that ends then.
func (b *Board) point(at float64) values {
	nan := math.NaN()
	v := values{at, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan}
	if b.account.said() {
		v[1] = b.account.past.rate(0, at, pointSpan)
		v[6], v[7], v[9] = b.account.open, b.account.kept, b.account.inFlight
	}
	v[2] = b.sampled(at, pointSpan)
	v[3], v[4], v[10] = b.trained(at)
	v[5], _ = b.engines.mean(func(x *engine) float64 { return x.busy(at, pointSpan) })
	if b.bridge.past != nil {
		v[8] = b.bridge.ready
	}
	return v
}

// sampled is the tokens a second that the engines sample: by what they say, or
// else by what producers got.
func (b *Board) sampled(at, span float64) float64 {
	if _, sum := b.engines.mean(func(x *engine) float64 { return x.past.rate(enSampled, at, span) }); known(sum) {
		return sum
	}
	return b.producers.sum(at, func(x *producer) float64 { return x.past.rate(prSampled, at, max(span, 2*sampleEvery)) })
}

const pointSteps = 4 // that what a point says of the trainer is of

// trained is what the trainer did then, as its last steps have it: a step's
// time is known when it is over.
func (b *Board) trained(at float64) (tokens, wait, staleness float64) {
	t, s := &b.steps, &b.series
	s.cursor = max(s.cursor, t.first-1)
	for i := s.cursor - t.first + 1; i >= 0 && i < int64(len(t.rows)) && t.rows[i].committed && t.rows[i].committedAt <= at; i++ {
		s.cursor++
	}
	late, overdue := b.trainer.overdue(at)
	n, wall, waited := 0.0, late.wall(), late.wait
	staleness = math.NaN()
	for i := s.cursor - t.first; i >= 0 && i > s.cursor-t.first-pointSteps && i < int64(len(t.rows)); i-- {
		r := &t.rows[i]
		if n == 0 && !overdue && at-r.committedAt > longSpan+5*float64(r.wall) {
			return 0, math.NaN(), math.NaN() // long ago
		}
		if n == 0 {
			staleness = float64(r.staleMean)
		}
		n, wall, waited, tokens = n+1, wall+float64(r.wall), waited+float64(r.wait), tokens+float64(r.tokens)
	}
	return tokens / wall, fraction(waited / wall), staleness
}
