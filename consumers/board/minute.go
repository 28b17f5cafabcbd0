package board

import "math"

const minuteSeconds = 60

// minute is what was done in each of the last seconds.
type minute struct {
	newest float64 // the newest moment
	bins   [minuteSeconds + 2]moments
	second [minuteSeconds + 2]int64 // that a bin is of
}

func (m *minute) add(what int, from, to float64) { m.add2(what, from, to, 1) }

// add2 adds an interval, times a sign, to the seconds that it lies in.
func (m *minute) add2(what int, from, to, sign float64) {
	if !(from < to) || !known(from) || !known(to) || to > math.MaxInt32*10 || to < 0 {
		return
	}
	m.newest = max(m.newest, to)
	from = max(from, m.newest-minuteSeconds-1)
	for s := math.Floor(from); s < to; s++ {
		i := int64(s) % int64(len(m.bins))
		if i < 0 || m.second[i] > int64(s) {
			continue
		}
		if m.second[i] < int64(s) {
			m.second[i], m.bins[i] = int64(s), moments{}
		}
		m.bins[i][what] += sign * (min(to, s+1) - max(from, s))
	}
}

// last are the moments of the last minute before the newest.
func (m *minute) last() (sum moments) { return m.before(m.newest) }

func (m *minute) before(end float64) (sum moments) {
	for i := range m.bins {
		if s := float64(m.second[i]); s > end-minuteSeconds-1 && s <= end && s > 0 {
			for k, x := range m.bins[i] {
				sum[k] += max(x, 0)
			}
		}
	}
	return sum
}

// covered is how many seconds of the minute up to a moment are known; all that
// are known where that is long ago.
func (m *minute) covered(end float64) float64 {
	if m.newest > end+minuteSeconds {
		return math.Inf(1)
	}
	sum := m.last()
	return sum.sum()
}
