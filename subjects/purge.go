package subjects

// EventPurged says that ROLLOUTS was purged on purpose: what is missing below
// its sequence is no loss.
const EventPurged WeightsEvent = "purged"

// PurgedEvent is written before the purge it is of.
type PurgedEvent struct {
	V int `msgpack:"v" json:"v"`
	// Below is the first ROLLOUTS sequence that stays.
	Below uint64 `msgpack:"below" json:"below"`
	// Step is the checkpointed step that no trainer goes back behind.
	Step Step `msgpack:"st" json:"step"`
	// Incarnation of the trainer at the time.
	Incarnation int    `msgpack:"inc" json:"incarnation"`
	Writer      string `msgpack:"by" json:"writer"`
	At          int64  `msgpack:"at" json:"at"` // Unix nanoseconds
}
