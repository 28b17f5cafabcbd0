package subjects

// File is one file of a published set of weights.
type File struct {
	Name   string `msgpack:"name" json:"name"` // relative to the event's Dir
	Bytes  int64  `msgpack:"bytes" json:"bytes"`
	SHA256 string `msgpack:"sha256" json:"sha256"` // lower-case hex
}

// VersionEvent says that the weights of a version are in the shared store,
// whole: it follows the rename that made them visible.
type VersionEvent struct {
	V       int           `msgpack:"v" json:"v"`
	Version PolicyVersion `msgpack:"ver" json:"version"`
	Step    Step          `msgpack:"st" json:"step"`
	// Incarnation counts trainer starts; a resumed trainer announces its
	// version again under the next one.
	Incarnation int    `msgpack:"inc" json:"incarnation"`
	Dir         string `msgpack:"dir" json:"dir"`
	Format      string `msgpack:"fmt" json:"format"` // "safetensors"
	Files       []File `msgpack:"files" json:"files"`
	At          int64  `msgpack:"at" json:"at"` // Unix nanoseconds
}

// CommitEvent says that the trainer applied a step.
type CommitEvent struct {
	V           int   `msgpack:"v" json:"v"`
	Step        Step  `msgpack:"st" json:"step"`
	Incarnation int   `msgpack:"inc" json:"incarnation"`
	Tokens      int64 `msgpack:"t" json:"tokens"`
	// TrainSeconds is the step itself, WaitSeconds how long the trainer had
	// waited for its batch.
	TrainSeconds float64            `msgpack:"ts" json:"train_seconds"`
	WaitSeconds  float64            `msgpack:"ws" json:"wait_seconds"`
	Metrics      map[string]float64 `msgpack:"m" json:"metrics"`
	At           int64              `msgpack:"at" json:"at"`
}

// CheckpointEvent says that a checkpoint on disk covers every step up to Step.
type CheckpointEvent struct {
	V           int    `msgpack:"v" json:"v"`
	Step        Step   `msgpack:"st" json:"step"`
	Incarnation int    `msgpack:"inc" json:"incarnation"`
	Path        string `msgpack:"path" json:"path"`
	At          int64  `msgpack:"at" json:"at"`
}

// ResumedEvent says that a trainer connected whose checkpoint holds Step.
type ResumedEvent struct {
	V           int   `msgpack:"v" json:"v"`
	Step        Step  `msgpack:"st" json:"step"`
	Incarnation int   `msgpack:"inc" json:"incarnation"`
	At          int64 `msgpack:"at" json:"at"`
}

// AckEvent says what an engine did with a version.
type AckEvent struct {
	V           int           `msgpack:"v" json:"v"`
	Engine      string        `msgpack:"eng" json:"engine"`
	Version     PolicyVersion `msgpack:"ver" json:"version"`
	Incarnation int           `msgpack:"inc" json:"incarnation"`
	// Error is empty when the engine serves the version.
	Error string `msgpack:"err,omitempty" json:"error,omitempty"`
	// The phases of the sync, in seconds.
	PauseSeconds  float64 `msgpack:"p" json:"pause_seconds"`
	LoadSeconds   float64 `msgpack:"l" json:"load_seconds"`
	VerifySeconds float64 `msgpack:"vf" json:"verify_seconds"`
	ResumeSeconds float64 `msgpack:"rs" json:"resume_seconds"`
	At            int64   `msgpack:"at" json:"at"`
}
