package export

import (
	"encoding/json"

	"github.com/headrace/headrace/subjects"
)

// Version is the version of the JSONL form (docs/export.md). Fields are only ever
// added; a reader refuses a higher one than its own. Version 2 added events.
const Version = 2

// Header is the first line of the JSONL form: which run it is.
type Header struct {
	Version   int             `json:"headrace_export"`
	Run       subjects.Run    `json:"run"`
	Tokenizer string          `json:"tokenizer,omitempty"`
	Recipe    json.RawMessage `json:"recipe,omitempty"` // resolved
}

// Record is one trajectory, and what became of it: a line of the JSONL form.
// Times are Unix nanoseconds, spans are pairs [start, end) of token positions.
type Record struct {
	ID          string            `json:"id"`
	Kind        subjects.Kind     `json:"kind"`
	Group       subjects.GroupID  `json:"group"`
	Slot        subjects.Slot     `json:"slot"`
	Attempt     subjects.Attempt  `json:"attempt"`
	Round       subjects.Step     `json:"round"`
	Environment string            `json:"environment"`
	Task        string            `json:"task"` // JSON, as it was
	EnvSeed     int64             `json:"env_seed"`
	Producer    string            `json:"producer"`
	Engine      string            `json:"engine"`
	Tokenizer   string            `json:"tokenizer"`
	Sampling    subjects.Sampling `json:"sampling"`

	Status     subjects.Status    `json:"status"`
	Reason     string             `json:"reason"`
	Reward     float64            `json:"reward"`
	Components map[string]float64 `json:"components"`
	Started    int64              `json:"started"`
	Finished   int64              `json:"finished"`
	Segments   []Segment          `json:"segments"`
	Turns      []Turn             `json:"turns"`
	Messages   []subjects.Message `json:"messages"`

	// Fate is what the ledger says; nil where it says nothing: of an evaluation,
	// and of groups that are open.
	Fate *Fate `json:"fate"`
}

// Segment is one token sequence: T ids, the logprob of each sampled one in order.
type Segment struct {
	Tokens   []int32    `json:"tokens"`
	Logprobs []float32  `json:"logprobs"`
	Versions [][3]int64 `json:"versions"` // start, end, policy version
	LossMask [][2]int32 `json:"loss_mask"`
	Parent   int        `json:"parent"` // segment it forked from, -1 none
	Shared   int        `json:"shared"` // leading tokens in common with it
}

// Turn is one call of the engine and the environment's answer.
type Turn struct {
	Segment    int      `json:"segment"`
	Prompt     [2]int32 `json:"prompt"`
	Completion [2]int32 `json:"completion"`
	Queued     int64    `json:"queued"`
	Generated  int64    `json:"generated"`
	Stepped    int64    `json:"stepped"`
	Cached     int32    `json:"cached"`
	Finish     string   `json:"finish"`
	Reward     float64  `json:"reward"`
}

// Fate is what the ledger says of a trajectory's group, and of itself in it.
type Fate struct {
	// Outcome is the group's last verdict, and when it opened and closed.
	Outcome subjects.Outcome `json:"outcome"`
	Opened  int64            `json:"opened"`
	Closed  int64            `json:"closed"`
	Unused  int              `json:"unused"`
	// Member: it is one of those that the group closed with; the rest is only of members.
	Member bool `json:"member"`
	Masked bool `json:"masked"`
	// Step is the batch it is in, 0 none, and Advantage its advantage there.
	Step      subjects.Step `json:"step"`
	Advantage float64       `json:"advantage"`

	members int // that the group closed with
}

// newRecord is a trajectory as a record.
func newRecord(t *subjects.Trajectory, fate *Fate) *Record {
	r := &Record{ID: t.ID(), Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Round: t.Round,
		Environment: t.Environment, Task: string(t.Task), EnvSeed: t.Seed, Producer: t.Producer, Engine: t.Engine, Tokenizer: t.Tokenizer,
		Sampling: t.Sampling, Status: t.Status, Reason: t.Reason, Reward: t.Reward, Components: map[string]float64{},
		Started: t.Started, Finished: t.Finished, Segments: make([]Segment, len(t.Segments)), Turns: make([]Turn, len(t.Turns)),
		Messages: append([]subjects.Message{}, t.Messages...), Fate: fate}
	for name, x := range t.Components {
		r.Components[name] = x
	}
	for i := range t.Segments {
		s := &t.Segments[i]
		v := Segment{Tokens: append([]int32{}, s.Tokens...), Logprobs: append([]float32{}, s.Logprobs...), Versions: make([][3]int64, len(s.Versions)),
			LossMask: make([][2]int32, len(s.LossMask)), Parent: s.Parent, Shared: s.Shared}
		for k, w := range s.Versions {
			v.Versions[k] = [3]int64{int64(w.Start), int64(w.End), int64(w.Version)}
		}
		for k, m := range s.LossMask {
			v.LossMask[k] = [2]int32{m.Start, m.End}
		}
		r.Segments[i] = v
	}
	for i := range t.Turns {
		u := &t.Turns[i]
		r.Turns[i] = Turn{Segment: u.Segment, Prompt: [2]int32{u.Prompt.Start, u.Prompt.End}, Completion: [2]int32{u.Completion.Start, u.Completion.End},
			Queued: u.Queued, Generated: u.Generated, Stepped: u.Stepped, Cached: u.Cached, Finish: u.Finish, Reward: u.Reward}
	}
	return r
}

// trajectory is the record's trajectory.
func (r *Record) trajectory() *subjects.Trajectory {
	t := &subjects.Trajectory{Kind: r.Kind, Group: r.Group, Slot: r.Slot, Attempt: r.Attempt, Round: r.Round,
		Environment: r.Environment, Task: []byte(r.Task), Seed: r.EnvSeed, Producer: r.Producer, Engine: r.Engine, Tokenizer: r.Tokenizer,
		Sampling: r.Sampling, Status: r.Status, Reason: r.Reason, Reward: r.Reward, Components: r.Components,
		Started: r.Started, Finished: r.Finished, Messages: r.Messages}
	for i := range r.Segments {
		s := &r.Segments[i]
		v := subjects.Segment{Tokens: s.Tokens, Logprobs: s.Logprobs, Parent: s.Parent, Shared: s.Shared}
		for _, w := range s.Versions {
			v.Versions = append(v.Versions, subjects.VersionSpan{Start: int32(w[0]), End: int32(w[1]), Version: subjects.PolicyVersion(w[2])})
		}
		for _, m := range s.LossMask {
			v.LossMask = append(v.LossMask, subjects.Span{Start: m[0], End: m[1]})
		}
		t.Segments = append(t.Segments, v)
	}
	for i := range r.Turns {
		u := &r.Turns[i]
		t.Turns = append(t.Turns, subjects.Turn{Segment: u.Segment, Prompt: subjects.Span{Start: u.Prompt[0], End: u.Prompt[1]},
			Completion: subjects.Span{Start: u.Completion[0], End: u.Completion[1]}, Queued: u.Queued, Generated: u.Generated,
			Stepped: u.Stepped, Cached: u.Cached, Finish: u.Finish, Reward: u.Reward})
	}
	return t
}
