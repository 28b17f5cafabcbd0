package subjects

// Task is one lease: play this slot of this group once.
type Task struct {
	V       int     `msgpack:"v" json:"v"`
	Kind    Kind    `msgpack:"k" json:"kind"`
	Group   GroupID `msgpack:"g" json:"group"`
	Slot    Slot    `msgpack:"s" json:"slot"`
	Attempt Attempt `msgpack:"a" json:"attempt"`
	// Round is the step whose evaluation the task belongs to; 0 for training.
	Round Step `msgpack:"rd,omitempty" json:"round,omitempty"`
	// Environment names the environment to play, one of the run's.
	Environment string `msgpack:"env" json:"environment"`
	// Seed of the environment: the same for every slot of a group.
	Seed int64 `msgpack:"seed" json:"seed"`
	// Data is the dataset's row for this task, JSON; empty when the seed is all.
	Data []byte `msgpack:"data,omitempty" json:"data,omitempty"`
	// Sampling of the model calls; its seed differs by slot and attempt.
	Sampling Sampling `msgpack:"sp" json:"sampling"`
	// Issued is when the grouper issued it, Unix nanoseconds.
	Issued int64 `msgpack:"at" json:"issued"`
	// Token is the [LeaseToken]: the producer copies it into the index entry of
	// the trajectory. Whoever can read it can fill the slot.
	Token string `msgpack:"tk,omitempty" json:"token,omitempty"`
}

// ID names the trajectory this task is to become: group/slot/attempt.
func (t *Task) ID() string { return TrajectoryID(t.Group, t.Slot, t.Attempt) }
