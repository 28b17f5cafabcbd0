package top

import (
	"math"
	"strings"

	"github.com/headrace/headrace/consumers/board"
)

var blocks = []rune("▁▂▃▄▅▆▇█")

// sparkline is a curve of n characters at most, each the mean of as many values.
func sparkline(column board.Column, n int) string {
	var means []float64
	low, high := math.Inf(1), math.Inf(-1)
	n = min(n, len(column))
	for i := range n {
		sum, count := 0.0, 0.0
		for _, x := range column[i*len(column)/n : (i+1)*len(column)/n] {
			if !math.IsNaN(x) && !math.IsInf(x, 0) {
				sum, count = sum+x, count+1
			}
		}
		means = append(means, sum/count)
		if count > 0 {
			low, high = min(low, sum/count), max(high, sum/count)
		}
	}
	var b strings.Builder
	for _, m := range means {
		switch {
		case math.IsNaN(m):
			b.WriteByte(' ')
		case high > low:
			b.WriteRune(blocks[int((m-low)/(high-low)*float64(len(blocks)-1)+.5)])
		default:
			b.WriteRune(blocks[0])
		}
	}
	return b.String()
}
