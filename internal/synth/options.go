package synth

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/subjects"
)

// Options say what to make up. The zero value is a run of 5000 trajectories.
type Options struct {
	// Run is the name of the run. Default synthetic.
	Run subjects.Run
	// Trajectories is about how many there are, a few percent more. Default 5000.
	Trajectories int
	// Seed decides everything: two runs of a seed, a name and a size are equal.
	Seed int64
	// Start is when the run began. Default: a Monday morning of 2026.
	Start time.Time
	// Steps ends the run after so many steps instead of Trajectories.
	Steps int
	// Progress, when set, is told now and then how many trajectories there are.
	Progress func(done int)
}

// Report sums up a run that was written.
type Report struct {
	Run          subjects.Run   `json:"run"`
	Trajectories int            `json:"trajectories"`
	Bundles      int            `json:"bundles"`
	Entries      int            `json:"ledger_entries"`
	Steps        subjects.Step  `json:"steps"`
	Letters      int            `json:"dead_letters"`
	Bytes        int64          `json:"body_bytes"`
	Stored       int64          `json:"stored_bytes"`
	Statuses     map[string]int `json:"statuses"`
	Outcomes     map[string]int `json:"outcomes"`
	Trained      uint64         `json:"trained"`
	Lasted       float64        `json:"virtual_seconds"`
	Seconds      float64        `json:"seconds"`
}

const (
	defaultTrajectories = 5000
	groupSize           = 8
	large               = 50000 // trajectories from which on batches are large
	// perTrained is how many trajectories are played for one that is trained on.
	perTrained = 1.19
)

func (o Options) withDefaults() Options {
	if o.Run == "" {
		o.Run = "synthetic"
	}
	if o.Trajectories <= 0 {
		o.Trajectories = defaultTrajectories
	}
	if o.Start.IsZero() {
		o.Start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	}
	if o.Steps <= 0 {
		o.Steps = max(4, int(float64(o.Trajectories)/perTrained)/(o.groups()*groupSize)+1)
	}
	return o
}

// groups of a batch.
func (o Options) groups() int {
	if o.Trajectories >= large {
		return 32
	}
	return 8
}

func (o Options) validate() error {
	if err := o.Run.Validate(); err != nil {
		return fmt.Errorf("synthetic run: %w", err)
	}
	return nil
}
