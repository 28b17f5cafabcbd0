package recipe

import (
	"slices"

	"github.com/headrace/headrace/subjects"
)

// Retention says how much of a run's trajectories stay on the bus. What goes is
// only what no checkpoint of the trainer, no open group and no grouper that starts
// needs: a run can always go on. It can no longer be replayed or audited from there.
type Retention struct {
	// Rollouts is the most bytes that the stream of trajectories may hold; when it
	// is full, producers wait. It must hold what is played between two checkpoints
	// and what is in flight. It is applied when the run is made.
	Rollouts int64 `yaml:"rollouts"`
	// Keep is all (nothing is purged; a full stream ends the run's progress), window
	// (once it is 70 % full the oldest goes, down to 60 %) or checkpoint (everything
	// goes that none of the kept checkpoints needs, at once).
	Keep string `yaml:"keep"`
	// Steps are the newest trained steps whose trajectories stay whatever `keep` says, to be
	// replayed or looked at. They must fit `rollouts`, or producers wait for ever. 0: none.
	Steps int `yaml:"steps"`
}

// defaultRollouts is the limit of ROLLOUTS.
const defaultRollouts = 32 << 30

// The values of Retention.Keep.
var keeps = []string{"all", "window", "checkpoint"}

// DefaultRetention keeps as much as there is room for.
func DefaultRetention() Retention { return Retention{Rollouts: defaultRollouts, Keep: "window"} }

// leastRollouts holds one bundle of every kind, with room to tell full from not.
const leastRollouts = 1 << 20

func (r *Recipe) validateRetention() error {
	t := &r.Retention
	switch {
	case t.Rollouts < leastRollouts:
		return fieldErrorf("retention.rollouts", "%d; want bytes, at least %d", t.Rollouts, leastRollouts)
	case !slices.Contains(keeps, t.Keep):
		return fieldErrorf("retention.keep", "%q; want all, window or checkpoint", t.Keep)
	case t.Steps < 0:
		return fieldErrorf("retention.steps", "must be at least 0")
	}
	return nil
}

// StreamOptions are those of the run's streams.
func (r *Recipe) StreamOptions() subjects.StreamOptions {
	return subjects.StreamOptions{RolloutBytes: r.Retention.Rollouts}
}

// StateBytes is how often a grouper puts its state into the ledger, in bytes of
// trajectories: what came since then cannot be purged.
func (r *Recipe) StateBytes() int64 { return r.Retention.Rollouts / 16 }
