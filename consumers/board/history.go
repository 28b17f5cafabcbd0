package board

import (
	"math"
	"slices"
)

// history remembers a process's counters for a minute by the second and for a
// quarter of an hour by ten of them. A counter that falls was started anew; what
// it had grown to is kept.
type history struct {
	keys   []string
	last   []float64 // as said last
	grown  []float64 // since the board began to look
	fine   samples
	coarse samples
	first  float64   // when the first report came
	since  float64   // what all the time is counted from
	base   []float64 // what was grown by then
}

const (
	mostSamples = 72
	coarseEvery = 10.0 // seconds
	coarseLast  = 90   // samples
)

func newHistory(every float64, keys ...string) *history {
	return &history{keys: keys, last: nans(len(keys)), grown: make([]float64, len(keys)), fine: samples{every: every, most: mostSamples}, coarse: samples{every: coarseEvery, most: coarseLast}}
}

func nans(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.NaN()
	}
	return x
}

// count has all the time counted from the first report after a moment, once
// that is said.
func (h *history) count(now, since float64) {
	if since > h.since && now >= since {
		h.since, h.first, h.base = since, now, slices.Clone(h.grown)
	}
}

// add folds a report in. A key that it does not have keeps its value.
func (h *history) add(now float64, m map[string]float64) {
	for i, key := range h.keys {
		if key == "" {
			continue // it is set
		}
		v := counter(m, key)
		switch last := h.last[i]; {
		case math.IsNaN(v):
			continue
		case v >= last:
			h.grown[i] += v - last
		case v < last:
			h.grown[i] += v
		}
		h.last[i] = v
	}
	if len(h.fine.at) == 0 {
		h.first = now
	}
	h.fine.add(now, h.grown)
	h.coarse.add(now, h.grown)
}

// over is by how much a counter grew in the last span seconds before now, and
// in how many; nothing where it was not said or nothing was heard meanwhile. A
// span without end is all the time that was looked at.
func (h *history) over(key int, now, span float64) (grown, seconds float64) {
	n := len(h.fine.at)
	if n < 2 || math.IsNaN(h.last[key]) || h.fine.at[n-1] < now-span {
		return math.NaN(), 0
	}
	last := h.fine.at[n-1]
	if math.IsInf(span, 1) {
		grown = h.grown[key]
		if h.base != nil {
			grown -= h.base[key]
		}
		return grown, last - h.first
	}
	at, value := h.fine.before(now-span, key, len(h.keys))
	if at > now-span { // further back than the minute
		if earlier, v := h.coarse.before(now-span, key, len(h.keys)); earlier < at {
			at, value = earlier, v
		}
	}
	return h.fine.values[(n-1)*len(h.keys)+key] - value, last - at
}

// samples are counters as they were, some seconds apart, oldest first.
type samples struct {
	every  float64
	most   int
	at     []float64
	values []float64 // one sample behind the other
}

func (s *samples) add(now float64, values []float64) {
	n := len(s.at)
	if n > 0 && now-s.at[n-1] < s.every {
		return
	}
	if n == s.most {
		drop := s.most / 8
		s.at = append(s.at[:0], s.at[drop:]...)
		s.values = append(s.values[:0], s.values[drop*len(values):]...)
	}
	s.at, s.values = append(s.at, now), append(s.values, values...)
}

// before is the last sample up to a moment, or the first of all.
func (s *samples) before(moment float64, key, width int) (at, value float64) {
	i := len(s.at) - 1
	for i > 0 && s.at[i] > moment {
		i--
	}
	return s.at[i], s.values[i*width+key]
}

// rate is a counter's growth a second.
func (h *history) rate(key int, now, span float64) float64 {
	grown, seconds := h.over(key, now, span)
	return grown / seconds // 0/0 is unknown, as it should be
}

// ratio is the growth of one counter by that of another.
func (h *history) ratio(key, of int, now, span float64) float64 {
	a, _ := h.over(key, now, span)
	b, _ := h.over(of, now, span)
	return fraction(a / b)
}

// fraction is x where it is a fraction, but for rounding and reports that came
// a little late; unknown where it is no number.
func fraction(x float64) float64 {
	if !known(x) {
		return math.NaN()
	}
	return min(max(x, 0), 1)
}

// counter is a gauge that is a number and not negative; else unknown.
func counter(m map[string]float64, key string) float64 {
	if v, ok := m[key]; ok && known(v) && v >= 0 {
		return v
	}
	return math.NaN()
}

// whole is a count for people: never negative, never beyond what a float counts exactly.
func whole(x float64) int64 {
	if !(x > 0) {
		return 0
	}
	return int64(min(x, 1<<53))
}

// set is the value of a counter that is counted here, for the next sample.
func (h *history) set(key int, v float64) { h.last[key], h.grown[key] = v, v }
