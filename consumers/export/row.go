package export

import (
	"cmp"
	"slices"
	"time"

	"github.com/headrace/headrace/subjects"
)

// row is a row of the table: one segment, with all that is said of its
// trajectory, so that a row is complete without its neighbours. A trajectory
// without segments, as one that failed early, is one row with segment -1.
type row struct {
	ID          string      `parquet:"id"`
	Segment     int32       `parquet:"segment"`
	Segments    int32       `parquet:"segments"`
	Kind        string      `parquet:"kind,dict"`
	Group       string      `parquet:"group"`
	Slot        int32       `parquet:"slot"`
	Attempt     int32       `parquet:"attempt"`
	Round       int64       `parquet:"round"`
	Environment string      `parquet:"environment,dict"`
	Task        string      `parquet:"task"`
	EnvSeed     int64       `parquet:"env_seed"`
	Producer    string      `parquet:"producer,dict"`
	Engine      string      `parquet:"engine,dict"`
	Tokenizer   string      `parquet:"tokenizer,dict"`
	Temperature float64     `parquet:"temperature"`
	TopP        float64     `parquet:"top_p"`
	TopK        int64       `parquet:"top_k"`
	Status      string      `parquet:"status,dict"`
	Reason      string      `parquet:"reason"`
	Reward      float64     `parquet:"reward"`
	Components  []component `parquet:"components,list"`
	Started     time.Time   `parquet:"started,timestamp(nanosecond)"`
	Finished    time.Time   `parquet:"finished,timestamp(nanosecond)"`
	Parent      int32       `parquet:"parent"`
	Shared      int32       `parquet:"shared"`
	InputIDs    []int32     `parquet:"input_ids,list"`
	LossMask    []int32     `parquet:"loss_mask,list"`
	Logprobs    []float32   `parquet:"logprobs,list"`
	Versions    []int32     `parquet:"policy_versions,list"`
	Turns       []turnRow   `parquet:"turns,list"`
	Messages    []textRow   `parquet:"messages,list"`
	Outcome     string      `parquet:"outcome,dict"` // empty: undecided
	Member      bool        `parquet:"member"`
	Masked      bool        `parquet:"masked"`
	Step        int64       `parquet:"step"`
	Advantage   float64     `parquet:"advantage"`
	Seq         int64       `parquet:"seq"`
	Index       int32       `parquet:"index"`
}

type component struct {
	Name  string  `parquet:"name"`
	Value float64 `parquet:"value"`
}

type turnRow struct {
	Segment         int32     `parquet:"segment"`
	PromptStart     int32     `parquet:"prompt_start"`
	PromptEnd       int32     `parquet:"prompt_end"`
	CompletionStart int32     `parquet:"completion_start"`
	CompletionEnd   int32     `parquet:"completion_end"`
	Queued          time.Time `parquet:"queued,timestamp(nanosecond)"`
	Generated       time.Time `parquet:"generated,timestamp(nanosecond)"`
	Stepped         time.Time `parquet:"stepped,timestamp(nanosecond)"`
	Cached          int32     `parquet:"cached"`
	Finish          string    `parquet:"finish"`
	Reward          float64   `parquet:"reward"`
}

type textRow struct {
	Role    string `parquet:"role"`
	Content string `parquet:"content"`
	Name    string `parquet:"name"`
}

// rows are the rows of a trajectory.
func rows(r *Record, at subjects.Address) []row {
	base := baseRow(r, at)
	if len(r.Segments) == 0 {
		return []row{base}
	}
	out := make([]row, len(r.Segments))
	for i := range r.Segments {
		s, v := &r.Segments[i], base
		v.Segment, v.Parent, v.Shared, v.InputIDs = int32(i), int32(s.Parent), int32(s.Shared), s.Tokens
		v.Logprobs, v.Versions, v.LossMask = s.perToken()
		out[i] = v
	}
	return out
}

//nolint:gosec // counts that the inspector bounds
func baseRow(r *Record, at subjects.Address) row {
	v := row{ID: r.ID, Segment: -1, Segments: int32(len(r.Segments)), Kind: string(r.Kind), Group: string(r.Group), Slot: int32(r.Slot),
		Attempt: int32(r.Attempt), Round: int64(r.Round), Environment: r.Environment, Task: r.Task, EnvSeed: r.EnvSeed, Producer: r.Producer,
		Engine: r.Engine, Tokenizer: r.Tokenizer, Temperature: r.Sampling.Temperature, TopP: r.Sampling.TopP, TopK: int64(r.Sampling.TopK),
		Status: string(r.Status), Reason: r.Reason, Reward: r.Reward, Started: moment(r.Started), Finished: moment(r.Finished), Parent: -1,
		Seq: int64(at.Seq), Index: int32(at.Index)}
	for name, x := range r.Components {
		v.Components = append(v.Components, component{name, x})
	}
	slices.SortFunc(v.Components, func(a, b component) int { return cmp.Compare(a.Name, b.Name) })
	for i := range r.Turns {
		u := &r.Turns[i]
		v.Turns = append(v.Turns, turnRow{int32(u.Segment), u.Prompt[0], u.Prompt[1], u.Completion[0], u.Completion[1],
			moment(u.Queued), moment(u.Generated), moment(u.Stepped), u.Cached, u.Finish, u.Reward})
	}
	for _, m := range r.Messages {
		v.Messages = append(v.Messages, textRow(m))
	}
	if f := r.Fate; f != nil {
		v.Outcome, v.Member, v.Masked, v.Step, v.Advantage = string(f.Outcome), f.Member, f.Masked, int64(f.Step), f.Advantage
	}
	return v
}

func moment(unixNano int64) time.Time { return time.Unix(0, unixNano).UTC() }

// size is about what the row takes in memory, bytes.
func (v *row) size() int {
	n := 512 + 16*len(v.InputIDs) + 80*len(v.Turns) + 64*len(v.Components) + len(v.Task) + len(v.Reason)
	for i := range v.Messages {
		n += 48 + len(v.Messages[i].Content)
	}
	return n
}
