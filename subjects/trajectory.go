package subjects

import "strconv"

// Status is how an episode ended.
type Status string

// The ways an episode ends. Only a failed or aborted one carries no reward.
const (
	Succeeded Status = "succeeded" // the environment terminated the episode
	Truncated Status = "truncated" // the turn limit cut it
	Overlong  Status = "overlong"  // the token budget cut it, perhaps inside an action
	Failed    Status = "failed"    // an engine, environment or deadline fault: never trained on
	Aborted   Status = "aborted"   // cancelled from outside: never trained on
)

// Valid reports whether s is a known status.
func (s Status) Valid() bool {
	switch s {
	case Succeeded, Truncated, Overlong, Failed, Aborted:
		return true
	}
	return false
}

// Trained reports whether a trajectory with this status can enter a batch.
func (s Status) Trained() bool { return s == Succeeded || s == Truncated || s == Overlong }

// Span is a half-open range [Start, End) of token positions in its segment.
type Span struct{ Start, End int32 }

// VersionSpan says which policy version sampled the tokens [Start, End).
type VersionSpan struct {
	Start, End int32
	Version    PolicyVersion
}

// Segment is one append-only token sequence: one row for the trainer. An
// episode whose history was rewritten has several; Parent and Shared then say
// which earlier segment it forked from and how many leading tokens they share.
type Segment struct {
	// Tokens are the ids of prompt, actions and observations, in order: [T] int32.
	Tokens []int32
	// Logprobs are the sampler's, after temperature, one per sampled token, in
	// order: [sum of the version spans] float32, nats.
	Logprobs []float32
	// Versions cover exactly the sampled tokens, ascending, disjoint.
	Versions []VersionSpan
	// LossMask covers the tokens to train on, a subset of the sampled ones.
	LossMask []Span
	// Parent is the index of the segment it forked from, -1 for the first.
	Parent int
	// Shared is the number of leading tokens it has in common with Parent.
	Shared int
}

// Turn is one call of the engine and the environment's answer to it. Times are
// Unix nanoseconds on the producer's clock.
type Turn struct {
	Segment    int   // the segment its tokens are in
	Prompt     Span  // the tokens added before the call since the last completion
	Completion Span  // the sampled tokens
	Queued     int64 // the call was made
	Generated  int64 // the completion was there
	Stepped    int64 // the environment had answered
	Cached     int32 // prompt tokens the engine took from its prefix cache
	Finish     string
	Reward     float64 // the environment's reward for this turn
}

// Message is text for people; nothing is ever tokenised from it again.
type Message struct {
	Role    string `msgpack:"role" json:"role"`
	Content string `msgpack:"content" json:"content"`
	Name    string `msgpack:"name,omitempty" json:"name,omitempty"`
}

// Sampling are the parameters of a task's model calls.
type Sampling struct {
	Temperature  float64 `msgpack:"temperature" json:"temperature"`
	TopP         float64 `msgpack:"top_p,omitempty" json:"top_p,omitempty"` // 0 means 1
	TopK         int     `msgpack:"top_k,omitempty" json:"top_k,omitempty"` // 0 means all
	MaxNewTokens int     `msgpack:"max_new_tokens" json:"max_new_tokens"`   // a call
	Seed         uint64  `msgpack:"seed" json:"seed"`                       // of this slot and attempt
}

// Trajectory is one finished episode.
type Trajectory struct {
	Kind    Kind
	Group   GroupID
	Slot    Slot
	Attempt Attempt
	// Round is the step whose evaluation this belongs to; 0 for training.
	Round Step

	Environment string
	Task        []byte // the task's data, JSON
	Seed        int64  // the environment's seed
	Producer    string
	Engine      string // the engine that served it, the last one if several
	Tokenizer   string // id of the vocabulary its tokens are from
	Sampling    Sampling

	Status     Status
	Reason     string // why, for every status but succeeded
	Reward     float64
	Components map[string]float64 // named parts of Reward

	Started, Finished int64 // Unix nanoseconds, the producer's clock
	Segments          []Segment
	Turns             []Turn
	Messages          []Message

	// Token is the task's lease token. It goes into the index entry, never into
	// the body.
	Token string `json:"-"`
}

// ID names the trajectory: group/slot/attempt.
func (t *Trajectory) ID() string { return TrajectoryID(t.Group, t.Slot, t.Attempt) }

// TrajectoryID joins the parts of a trajectory's name.
func TrajectoryID(g GroupID, s Slot, a Attempt) string {
	return string(g) + "/" + strconv.Itoa(int(s)) + "/" + strconv.Itoa(int(a))
}

// Index is the trajectory's index entry, without the place of its body.
func (t *Trajectory) Index() IndexEntry {
	e := IndexEntry{
		Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Round: t.Round,
		Status: t.Status, Reward: t.Reward, Environment: t.Environment,
		Segments: len(t.Segments), Greedy: t.Sampling.Temperature == 0,
		MinVersion: NoVersion, MaxVersion: NoVersion, Token: t.Token,
	}
	for i := range t.Segments {
		s := &t.Segments[i]
		e.add(len(s.Tokens))
		for _, m := range s.LossMask {
			e.train(m)
		}
		for _, v := range s.Versions {
			e.sampledBy(v.Version)
		}
	}
	return e
}
