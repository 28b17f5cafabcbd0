package subjects

import "encoding/json"

// Gauges is a role's report of itself, about once a second.
type Gauges struct {
	V        int                `msgpack:"v" json:"v"`
	Role     string             `msgpack:"role" json:"role"`
	Instance string             `msgpack:"inst" json:"instance"`
	At       int64              `msgpack:"at" json:"at"`
	Values   map[string]float64 `msgpack:"m" json:"values"`
	// Text is a sentence for people: a phase, a stall.
	Text string `msgpack:"text,omitempty" json:"text,omitempty"`
	// Leases, in every fifth report of a producer, are the oldest tasks it holds.
	Leases []HeldLease `msgpack:"held,omitempty" json:"held,omitempty"`
}

// Headers of DEADLETTER messages, whose body is the original bytes.
const (
	HeaderReason   = "Hr-Reason"   // why, one line
	HeaderSource   = "Hr-Source"   // stream the bytes came from
	HeaderSequence = "Hr-Sequence" // their sequence there
	HeaderItem     = "Hr-Item"     // place in the bundle; absent for the whole message
	HeaderID       = "Hr-Id"       // trajectory id, where it could be read
	HeaderBytes    = "Hr-Bytes"    // how many bytes the original had; only of a letter that has not all of them
)

// RunRecord is what a role needs to know of a run, under the run's name in the
// bucket [RunsBucket].
type RunRecord struct {
	V       int    `json:"v"`
	Run     Run    `json:"run"`
	Created int64  `json:"created"` // Unix nanoseconds
	Version string `json:"version"` // of the binary that created it
	// Schema is the [SchemaVersion] the run's messages are in.
	Schema int `json:"schema"`
	// Tokenizer is the id of the vocabulary that the run's tokens are from.
	Tokenizer string `json:"tokenizer,omitempty"`
	// Recipe is the resolved recipe, Hash the SHA-256 of its bytes.
	Recipe json.RawMessage `json:"recipe"`
	Hash   string          `json:"hash"`
	// Ended is why the run ended, empty while it goes on: the ledger's last
	// word, for those who may not read the ledger.
	Ended string `json:"ended,omitempty"`
	// CopyOf, of a copy, is the run whose ledger it has: that followed from when the
	// messages came there.
	CopyOf Run `json:"copy_of,omitempty"`
	// Origin, of a run that was imported, is the first line of the file it came
	// from: its ledger is that file's word, and nobody plays it.
	Origin json.RawMessage `json:"origin,omitempty"`
}

// EngineRecord is a live engine's entry in the run's engine registry.
type EngineRecord struct {
	V       int           `json:"v"`
	Engine  string        `json:"engine"`
	URL     string        `json:"url"`
	Version PolicyVersion `json:"version"` // NoVersion until the first load
	// Ready is false while it has no weights. While newer ones load it stays
	// true: calls are held back, not refused.
	Ready bool  `json:"ready"`
	At    int64 `json:"at"` // Unix nanoseconds
}
