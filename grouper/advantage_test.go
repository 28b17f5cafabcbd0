package grouper

import (
	"math"
	"testing"
)

// The reference values are those of Tunix's own tests and of numpy.
func TestAdvantages_Golden(t *testing.T) {
	r1, r2 := []float64{0.57450044, 0.09968603, 0.7419659}, []float64{0.8941783, 0.59656656, 0.45325184}
	solved := []float64{1, 0, 0, 1, 0, 1, 0, 0}
	for name, c := range map[string]struct {
		cfg           Config
		rewards, want []float64
	}{
		"grpo":            {Config{}, r1, []float64{0.307498, -1.117636, 0.810138}},
		"grpo second":     {Config{}, r2, []float64{1.094526, -0.228671, -0.865855}},
		"drgrpo":          {Config{Advantage: AdvantageDrGRPO}, r1, []float64{0.10245, -0.372365, 0.269915}},
		"drgrpo second":   {Config{Advantage: AdvantageDrGRPO}, r2, []float64{0.246179, -0.051432, -0.194747}},
		"rloo":            {Config{Advantage: AdvantageRLOO}, r1, []float64{0.153674, -0.558547, 0.404873}},
		"rloo second":     {Config{Advantage: AdvantageRLOO}, r2, []float64{0.369269, -0.077149, -0.292121}},
		"rloo whole":      {Config{Advantage: AdvantageRLOO}, []float64{1, 2, 3}, []float64{-1.5, 0, 1.5}},
		"rloo of one":     {Config{Advantage: AdvantageRLOO}, []float64{1}, []float64{0}},
		"solved":          {Config{}, solved, []float64{1.207612, -0.724567, -0.724567, 1.207612, -0.724567, 1.207612, -0.724567, -0.724567}},
		"solved, ddof 0":  {Config{StdDDOF: new(0)}, solved, []float64{1.290992, -0.774595, -0.774595, 1.290992, -0.774595, 1.290992, -0.774595, -0.774595}},
		"noise, no limit": {Config{ZeroVarianceTolerance: new(0.0)}, []float64{1, 1, 1, 1 + 1e-7}, []float64{-0.02381, -0.02381, -0.02381, 0.071429}},
		"noise":           {Config{}, []float64{1, 1, 1, 1 + 1e-7}, []float64{0, 0, 0, 0}},
		"epsilon":         {Config{Epsilon: 1e-4, StdDDOF: new(0)}, []float64{1, 0}, []float64{0.5 / 0.5001, -0.5 / 0.5001}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := c.cfg.WithDefaults()
			got := make([]float64, len(c.rewards))
			cfg.advantages(got, c.rewards)
			for i := range got {
				if math.Abs(got[i]-c.want[i]) > 2e-6 {
					t.Errorf("advantages of %v: %v, want %v", c.rewards, got, c.want)
					break
				}
			}
		})
	}
}
