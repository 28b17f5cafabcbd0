package export

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/headrace/headrace/subjects"
)

// atifSchema is the version of the Agent Trajectory Interchange Format that is written.
const atifSchema = "ATIF-v1.7"

// atifTrajectory is the root object of the format, as far as it is used here.
type atifTrajectory struct {
	Schema     string     `json:"schema_version"`
	Session    string     `json:"session_id"`
	Trajectory string     `json:"trajectory_id,omitempty"`
	Agent      atifAgent  `json:"agent"`
	Steps      []atifStep `json:"steps"`
	Notes      string     `json:"notes,omitempty"`
	Final      *atifTotal `json:"final_metrics,omitempty"`
	Extra      *atifExtra `json:"extra,omitempty"`
}

type atifAgent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Model   string `json:"model_name,omitempty"`
}

type atifStep struct {
	ID          int              `json:"step_id"`
	Timestamp   string           `json:"timestamp,omitempty"`
	Source      string           `json:"source"`
	Message     atifText         `json:"message"`
	Calls       []atifCall       `json:"tool_calls,omitempty"`
	Observation *atifObservation `json:"observation,omitempty"`
	Metrics     *atifMetrics     `json:"metrics,omitempty"`
}

type atifCall struct {
	ID        string          `json:"tool_call_id"`
	Function  string          `json:"function_name"`
	Arguments json.RawMessage `json:"arguments"`
}

type atifObservation struct {
	Results []atifResult `json:"results"`
}

type atifResult struct {
	Call    string   `json:"source_call_id,omitempty"`
	Content atifText `json:"content"`
}

type atifMetrics struct {
	Prompt        int       `json:"prompt_tokens"`
	Completion    int       `json:"completion_tokens"`
	Cached        int       `json:"cached_tokens"`
	PromptIDs     []int32   `json:"prompt_token_ids,omitempty"`
	CompletionIDs []int32   `json:"completion_token_ids,omitempty"`
	Logprobs      []float32 `json:"logprobs,omitempty"`
}

type atifTotal struct {
	Prompt     int `json:"total_prompt_tokens"`
	Completion int `json:"total_completion_tokens"`
	Cached     int `json:"total_cached_tokens"`
	Steps      int `json:"total_steps"`
}

// atifExtra is where the format has room for what it has no field for: the
// record, so that nothing is lost.
type atifExtra struct {
	Headrace *Record `json:"headrace,omitempty"`
	// Header is on the first trajectory of a file.
	Header *Header `json:"headrace_header,omitempty"`
}

// atifText is text; of content in parts the texts.
type atifText string

type atif struct {
	lines
	run  string
	head *Header // until it is written
}

func newATIF(w io.Writer, h *Header) Writer { return &atif{newLines(w), string(h.Run), h} }

func (a *atif) Write(r *Record, _ subjects.Address) error {
	t := atifTrajectory{Schema: atifSchema, Session: a.run, Trajectory: r.ID,
		Agent: atifAgent{Name: "headrace", Version: strconv.Itoa(Version), Model: r.Tokenizer},
		Final: &atifTotal{}, Extra: &atifExtra{Headrace: r, Header: a.head}}
	a.head = nil
	b := atifBuilder{record: r, out: &t}
	for _, m := range conversation(r.Messages) {
		b.message(&m)
	}
	if len(t.Steps) == 0 { // the format wants one
		b.step("system", r.Started).Message = atifText(string(r.Status) + ": " + r.Reason)
	}
	t.Final.Steps = len(t.Steps)
	return a.enc.Encode(&t)
}

func (*atif) Close() error { return nil }

// atifBuilder makes the steps of a trajectory. The i-th word of the model is
// that of the i-th turn.
type atifBuilder struct {
	record *Record
	out    *atifTrajectory
	turn   int
}

func (b *atifBuilder) step(source string, at int64) *atifStep {
	s := atifStep{ID: len(b.out.Steps) + 1, Source: source}
	if at != 0 {
		s.Timestamp = moment(at).Format(time.RFC3339Nano)
	}
	b.out.Steps = append(b.out.Steps, s)
	return &b.out.Steps[len(b.out.Steps)-1]
}

func (b *atifBuilder) message(m *Message) {
	at := b.record.Started
	if b.turn > 0 && b.turn <= len(b.record.Turns) {
		at = b.record.Turns[b.turn-1].Stepped
	}
	switch m.Role {
	case "assistant":
		b.agent(m)
	case "tool":
		if n := len(b.out.Steps); n > 0 && b.out.Steps[n-1].Source == "agent" {
			s := &b.out.Steps[n-1]
			if s.Observation == nil {
				s.Observation = &atifObservation{}
			}
			s.Observation.Results = append(s.Observation.Results, atifResult{m.ToolCallID, atifText(m.Content)})
			return
		}
		b.step("user", at).Message = atifText(m.Content)
	case "system":
		b.step("system", at).Message = atifText(m.Content)
	default:
		b.step("user", at).Message = atifText(m.Content)
	}
}

func (b *atifBuilder) agent(m *Message) {
	var turn *Turn
	if b.turn < len(b.record.Turns) {
		turn = &b.record.Turns[b.turn]
	}
	b.turn++
	if turn == nil {
		b.step("agent", 0).say(m)
		return
	}
	s := b.step("agent", turn.Generated)
	s.say(m)
	if turn.Segment >= len(b.record.Segments) {
		return
	}
	segment := &b.record.Segments[turn.Segment]
	logprobs, _, _ := segment.perToken()
	from, to := turn.Completion[0], turn.Completion[1]
	s.Metrics = &atifMetrics{Prompt: int(from), Completion: int(to - from), Cached: int(turn.Cached), CompletionIDs: segment.Tokens[from:to], Logprobs: logprobs[from:to]}
	f := b.out.Final
	f.Prompt, f.Completion, f.Cached = f.Prompt+int(from), f.Completion+int(to-from), f.Cached+int(turn.Cached)
}

func (s *atifStep) say(m *Message) {
	s.Message = atifText(m.Content)
	for _, c := range m.ToolCalls {
		arguments := json.RawMessage(c.Function.Arguments)
		var object map[string]json.RawMessage
		if json.Unmarshal(arguments, &object) != nil || object == nil {
			arguments, _ = json.Marshal(map[string]string{"raw": c.Function.Arguments}) // the format wants an object
		}
		s.Calls = append(s.Calls, atifCall{c.ID, c.Function.Name, arguments})
	}
}
