package feed

import (
	"encoding/json"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

// Version is the protocol's version.
const Version = 1

// Transport is how a batch's bytes reach the trainer.
type Transport string

// The transports.
const (
	MemFD  Transport = "memfd"  // shared memory, its descriptor passed with WELCOME
	Stream Transport = "stream" // as the raw bytes of BATCH
)

// Hello opens a feed.
type Hello struct {
	V      int    `json:"v"`
	Client string `json:"client"`
	// CheckpointStep is the step that the trainer's checkpoint holds; nil for a fresh start.
	CheckpointStep *subjects.Step `json:"checkpoint_step"`
	Rank           int            `json:"rank"`
	World          int            `json:"world"`
	Transport      Transport      `json:"transport"`
	Token          string         `json:"token,omitempty"`
}

// Welcome answers HELLO. With [MemFD] a descriptor of Slots*SlotBytes bytes is
// attached to its header.
type Welcome struct {
	V           int             `json:"v"`
	Run         subjects.Run    `json:"run"`
	StartStep   subjects.Step   `json:"start_step"`
	Incarnation int             `json:"incarnation"`
	Transport   Transport       `json:"transport"`
	Slots       int             `json:"slots"`
	SlotBytes   int             `json:"slot_bytes"`
	Trainer     json.RawMessage `json:"trainer"`
	Model       json.RawMessage `json:"model"`
	MaxSteps    subjects.Step   `json:"max_steps"`
	Paths       Paths           `json:"paths"`
	// Spans is how many spans a SPANS frame may have; 0: the bridge takes none.
	Spans int `json:"spans,omitempty"`
	// Clock is when the bridge had read HELLO and when it answered.
	Clock *Clock `json:"clock,omitempty"`
}

// Paths are the folders and files that bridge and trainer share.
type Paths struct {
	Weights     string `json:"weights"`
	Checkpoints string `json:"checkpoints"`
	// Demos is a JSONL file of demonstrations for the warm start, or empty.
	Demos string `json:"demos,omitempty"`
}

// Request is what every asking frame has.
type Request struct {
	ID int64 `json:"id"`
}

// Batch answers NEXT.
type Batch struct {
	ID   int64         `json:"id"`
	Step subjects.Step `json:"step"`
	// LedgerSeq is the ledger entry that fixed the batch.
	LedgerSeq uint64 `json:"ledger_seq"`
	// Slot of the ring, -1 when the bytes are the frame's own; Offset of the
	// slot in the ring and Bytes in use.
	Slot   int            `json:"slot"`
	Offset int            `json:"offset"`
	Bytes  int            `json:"nbytes"`
	Layout layout.Kind    `json:"layout"`
	Arrays []layout.Array `json:"arrays"`
	// Rows and Tokens that are not padding.
	Rows   int `json:"rows"`
	Tokens int `json:"tokens"`
	// Groups by their rows in the arrays; in the packed layout a row is a
	// segment, counted in the batch's order over all ranks.
	Groups     []Group   `json:"groups"`
	Staleness  Staleness `json:"staleness"`
	RewardMean float64   `json:"reward_mean"`
	// Overflowed counts rows that were cut or masked for their length.
	Overflowed int `json:"overflowed"`
	// Digest is the CRC-32C of the slot's bytes, eight hex digits.
	Digest string `json:"digest"`
}

// Group is the rows of one group.
type Group struct {
	Group      subjects.GroupID `json:"group"`
	Rows       [2]int           `json:"rows"` // first, count
	RewardMean float64          `json:"reward_mean"`
}

// Staleness is how many optimizer steps older than the batch's policy its
// trajectories' oldest tokens are.
type Staleness struct {
	Mean float64 `json:"mean"`
	Max  int64   `json:"max"`
}

// Release gives a slot back.
type Release struct {
	Slot int           `json:"slot"`
	Step subjects.Step `json:"step"`
}

// Commit says that an optimizer step was applied.
type Commit struct {
	ID      int64              `json:"id"`
	Step    subjects.Step      `json:"step"`
	Metrics map[string]float64 `json:"metrics"`
	TrainS  float64            `json:"train_s"`
	WaitS   float64            `json:"wait_s"`
	Tokens  int64              `json:"tokens"`
}

// Checkpointed says that a durable checkpoint covers a step.
type Checkpointed struct {
	ID   int64         `json:"id"`
	Step subjects.Step `json:"step"`
	Path string        `json:"path"`
}

// Weights says that the files of a policy version are in the shared store.
type Weights struct {
	ID      int64                  `json:"id"`
	Version subjects.PolicyVersion `json:"version"`
	Step    subjects.Step          `json:"step"`
	Dir     string                 `json:"dir"`
	Format  string                 `json:"format"`
	Files   []subjects.File        `json:"files"`
}

// Need says how many engines a trainer waits for.
type Need string

// The needs.
const (
	NeedNone   Need = "none"
	NeedQuorum Need = "quorum" // more than half of the registered engines
	NeedAll    Need = "all"    // every registered engine, one at least
)

// WaitWeights asks for an answer once engines serve a version.
type WaitWeights struct {
	ID       int64                  `json:"id"`
	Version  subjects.PolicyVersion `json:"version"`
	Need     Need                   `json:"need"`
	TimeoutS float64                `json:"timeout_s"`
}

// Clock are the bridge's times of a request and its answer, Unix nanoseconds:
// with its own two, the trainer knows how far its clock is from the bridge's.
type Clock struct {
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
}

// Spans is what the trainer did since the last such frame: a
// [subjects.SpanBatch], whose fields these are, of role and instance that the
// bridge fills in.
type Spans struct {
	ID int64 `json:"id"`
	At int64 `json:"at"`
	// Offset is what to add to the trainer's times to get the bridge's, and
	// Uncertainty by how much it may be wrong, nanoseconds.
	Offset      int64             `json:"offset,omitempty"`
	Uncertainty int64             `json:"uncertainty,omitempty"`
	Dropped     uint64            `json:"dropped,omitempty"`
	Names       []string          `json:"names"`
	Name        []int32           `json:"name"`
	Lane        []int32           `json:"lane"`
	Start       []int64           `json:"start"`
	Duration    []int64           `json:"duration"`
	Args        []subjects.RowArg `json:"args,omitempty"`
}

// OK answers a request; Clock is of SPANS, the other fields are WAIT_WEIGHTS' only.
type OK struct {
	ID       int64    `json:"id"`
	Acked    []string `json:"acked,omitempty"`
	Missing  []string `json:"missing,omitempty"`
	TimedOut bool     `json:"timed_out,omitempty"`
	Clock    *Clock   `json:"clock,omitempty"`
}

// Refusal is the body of ERROR. Without an id the connection is lost.
type Refusal struct {
	ID      int64  `json:"id,omitempty"`
	Message string `json:"message"`
}

// End answers NEXT when there is no further batch.
type End struct {
	ID     int64         `json:"id"`
	Reason string        `json:"reason"`
	Steps  subjects.Step `json:"steps"`
	// Text is the sentence, where there is more to say than the reason.
	Text string `json:"text,omitempty"`
}

// Notice is a remark for people, either way.
type Notice struct {
	Kind string `json:"kind"` // "progress", "log", "stall", ...
	Text string `json:"text,omitempty"`
	// Of a stall: the stage that holds the run up, why, and for how many seconds
	// nothing has moved. No code: the run moves again.
	Stage  string             `json:"stage,omitempty"`
	Code   subjects.StallCode `json:"code,omitempty"`
	SinceS float64            `json:"since_s,omitempty"`
	// Of progress.
	Phase string  `json:"phase,omitempty"`
	Done  float64 `json:"done,omitempty"`
	Total float64 `json:"total,omitempty"`
	Loss  float64 `json:"loss,omitempty"`
}

// Bye ends a feed.
type Bye struct {
	Reason string `json:"reason"`
}
