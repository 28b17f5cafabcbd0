package app

import (
	"io"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/subjects"
)

// Trajectory is a trajectory as scripts read it: `headrace show RUN trajectory
// ID --json`.
type Trajectory = show.Trajectory

// number is a float that JSON can hold.
type number = show.Number

// ViewTrajectory makes the JSON form of a trajectory.
func ViewTrajectory(t *subjects.Trajectory) *Trajectory { return show.View(t) }

// WriteTrajectory writes a trajectory as the conversation that it was. Long texts
// are folded unless all is set.
func WriteTrajectory(w io.Writer, t *subjects.Trajectory, all bool) { show.WriteText(w, t, all) }
