package board

import (
	"encoding/json"
	"time"

	"github.com/headrace/headrace/subjects"
)

// facts are what a board shows of a recipe, as a run's record has it: resolved,
// every default in place.
type facts struct {
	Name         string `json:"name"`
	Environment  named  `json:"environment"`
	Environments []named
	Trainer      struct {
		Steps int64 `json:"steps"`
	} `json:"trainer"`
	Grouper struct {
		MaxStaleness int64 `json:"max_staleness"`
	} `json:"grouper"`
}

type named struct {
	Name string `json:"name"`
}

const mostEnvironments = 64

// About takes over what the run's record says: its recipe's name, environments
// and bounds, and, where nobody said them, its name and when it was made.
func (b *Board) About(r *subjects.RunRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cfg.Run == "" {
		b.cfg.Run = r.Run
	}
	if b.cfg.Started.IsZero() && r.Created > 0 {
		b.cfg.Started = time.Unix(0, r.Created)
	}
	var f facts
	if json.Unmarshal(r.Recipe, &f) != nil {
		return // of a later build: the run is shown all the same
	}
	b.cfg.Recipe, b.cfg.MaxSteps, b.cfg.MaxStaleness = clip(f.Name), max(f.Trainer.Steps, 0), max(f.Grouper.MaxStaleness, 0)
	b.cfg.Environments = nil
	for _, e := range append([]named{f.Environment}, f.Environments...) {
		if e.Name != "" && len(b.cfg.Environments) < mostEnvironments {
			b.cfg.Environments = append(b.cfg.Environments, clip(e.Name))
		}
	}
}
