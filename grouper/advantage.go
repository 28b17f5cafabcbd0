package grouper

import "math"

// advantages writes the group-relative advantage of each reward into out,
// which has the same length. Of equal rewards (within tol) all are 0.
//
//	grpo:   (r - mean) / (std + epsilon), the standard deviation with ddof
//	drgrpo: r - mean                       (Liu et al. 2025)
//	rloo:   r - mean of the others         (Ahmadian et al. 2024)
func (c *Config) advantages(out, rewards []float64) {
	n, sum := float64(len(rewards)), 0.0
	for _, r := range rewards {
		sum += r
	}
	mean, equal := sum/n, equalRewards(rewards, *c.ZeroVarianceTolerance)
	scale := 1.0
	switch {
	case equal || len(rewards) < 2:
		scale = 0
	case c.Advantage == AdvantageGRPO:
		scale = 1 / (deviation(rewards, mean, float64(*c.StdDDOF)) + c.Epsilon)
	case c.Advantage == AdvantageRLOO:
		scale = n / (n - 1)
	}
	for i, r := range rewards {
		if out[i] = 0; scale != 0 {
			out[i] = (r - mean) * scale
		}
	}
}

func deviation(rewards []float64, mean, ddof float64) float64 {
	sum := 0.0
	for _, r := range rewards {
		sum += (r - mean) * (r - mean)
	}
	return math.Sqrt(sum / (float64(len(rewards)) - ddof))
}

// equalRewards reports whether the rewards lie within tol of each other: a
// standard deviation of rounding noise would be scaled up to a signal.
func equalRewards(rewards []float64, tol float64) bool {
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range rewards {
		low, high = min(low, r), max(high, r)
	}
	return high-low <= tol
}
