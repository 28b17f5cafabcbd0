package board

import "math"

// diary is what was done in each second of the last quarter of an hour or so.
type diary struct {
	newest float64 // the newest moment
	bins   [diarySeconds]moments
	second [diarySeconds]int64 // that a bin is of
}

const diarySeconds = viewLongest + 2

// add adds an interval, times a sign, to the seconds that it lies in.
func (d *diary) add(what int, from, to, sign float64) {
	if !(from < to) || !known(from) || !known(to) || to > 1<<35 || to < 0 {
		return
	}
	d.newest = max(d.newest, to)
	from = max(from, d.newest-diarySeconds+1)
	for s := math.Floor(from); s < to; s++ {
		i := int64(s) % diarySeconds
		if i < 0 || d.second[i] > int64(s) {
			continue
		}
		if d.second[i] < int64(s) {
			d.second[i], d.bins[i] = int64(s), moments{}
		}
		d.bins[i][what] += sign * (min(to, s+1) - max(from, s))
	}
}

// last are the moments of the last span seconds before the newest, or before a
// later time.
func (d *diary) last(span, end float64) (sum moments) {
	end = max(end, d.newest)
	for i := range d.bins {
		if s := float64(d.second[i]); s > end-span-1 && s > 0 {
			for k, x := range d.bins[i] {
				sum[k] += max(x, 0)
			}
		}
	}
	return sum
}
