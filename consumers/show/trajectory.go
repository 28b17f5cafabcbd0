package show

import (
	"encoding/json"
	"math"
	"time"

	"github.com/headrace/headrace/subjects"
)

// Trajectory is a trajectory as scripts read it: `headrace show RUN trajectory
// ID --json`. Times are in UTC, spans are pairs [start, end).
type Trajectory struct {
	ID          string            `json:"id"`
	Kind        subjects.Kind     `json:"kind"`
	Round       subjects.Step     `json:"round,omitempty"` // step whose evaluation it belongs to
	Environment string            `json:"environment"`
	Task        json.RawMessage   `json:"task,omitempty"`
	Seed        int64             `json:"seed"`
	Producer    string            `json:"producer"`
	Engine      string            `json:"engine"`
	Tokenizer   string            `json:"tokenizer"`
	Sampling    subjects.Sampling `json:"sampling"`

	Status     subjects.Status    `json:"status"`
	Reason     string             `json:"reason,omitempty"`
	Reward     Number             `json:"reward"`
	Components map[string]Number  `json:"components,omitempty"`
	Started    time.Time          `json:"started"`
	Finished   time.Time          `json:"finished"`
	Segments   []Segment          `json:"segments"`
	Turns      []Turn             `json:"turns"`
	Messages   []subjects.Message `json:"messages"`
}

// Segment is one token sequence of a trajectory: T ids, and the logprob of each
// sampled one in order.
type Segment struct {
	Tokens   []int32       `json:"tokens"`
	Logprobs []Number      `json:"logprobs"`
	LossMask [][2]int32    `json:"loss_mask"`
	Versions []VersionSpan `json:"versions"`
	Parent   int           `json:"parent"` // segment it forked from, -1 none
	Shared   int           `json:"shared"` // leading tokens they have in common
}

// VersionSpan says which policy version sampled the tokens [Start, End).
type VersionSpan struct {
	Start   int32                  `json:"start"`
	End     int32                  `json:"end"`
	Version subjects.PolicyVersion `json:"version"`
}

// Turn is one call of the engine and the environment's answer to it.
type Turn struct {
	Segment    int       `json:"segment"`
	Prompt     [2]int32  `json:"prompt"`
	Completion [2]int32  `json:"completion"`
	Queued     time.Time `json:"queued"`
	Generated  time.Time `json:"generated"`
	Stepped    time.Time `json:"stepped"`
	Cached     int32     `json:"cached"`
	Finish     string    `json:"finish"`
	Reward     Number    `json:"reward"`
}

// Number is a float that JSON can hold: null where it is none, as in a
// trajectory that was put in DEADLETTER for it.
type Number float64

// MarshalJSON writes the shortest form, or null.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return json.Marshal(v)
	}
	return []byte("null"), nil
}

// View makes the JSON form of a trajectory.
func View(t *subjects.Trajectory) *Trajectory {
	v := &Trajectory{ID: t.ID(), Kind: t.Kind, Round: t.Round, Environment: t.Environment, Seed: t.Seed, Producer: t.Producer,
		Engine: t.Engine, Tokenizer: t.Tokenizer, Sampling: t.Sampling, Status: t.Status, Reason: t.Reason, Reward: Number(t.Reward),
		Started: moment(t.Started), Finished: moment(t.Finished), Segments: []Segment{}, Turns: []Turn{}, Messages: t.Messages}
	if json.Valid(t.Task) {
		v.Task = t.Task
	}
	if len(t.Components) > 0 {
		v.Components = map[string]Number{}
	}
	for name, c := range t.Components {
		v.Components[name] = Number(c)
	}
	for i := range t.Segments {
		v.Segments = append(v.Segments, viewSegment(&t.Segments[i]))
	}
	for i := range t.Turns {
		u := &t.Turns[i]
		v.Turns = append(v.Turns, Turn{Segment: u.Segment, Prompt: pair(u.Prompt), Completion: pair(u.Completion), Queued: moment(u.Queued),
			Generated: moment(u.Generated), Stepped: moment(u.Stepped), Cached: u.Cached, Finish: u.Finish, Reward: Number(u.Reward)})
	}
	return v
}

func viewSegment(s *subjects.Segment) Segment {
	v := Segment{Tokens: s.Tokens, Logprobs: make([]Number, len(s.Logprobs)), LossMask: make([][2]int32, len(s.LossMask)),
		Versions: make([]VersionSpan, len(s.Versions)), Parent: s.Parent, Shared: s.Shared}
	for i, l := range s.Logprobs {
		v.Logprobs[i] = Number(l)
	}
	for i, m := range s.LossMask {
		v.LossMask[i] = pair(m)
	}
	for i, w := range s.Versions {
		v.Versions[i] = VersionSpan{w.Start, w.End, w.Version}
	}
	return v
}

func pair(s subjects.Span) [2]int32 { return [2]int32{s.Start, s.End} }

func moment(unixNano int64) time.Time { return time.Unix(0, unixNano).UTC() }
