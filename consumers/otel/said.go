package otel

import (
	"strconv"

	"github.com/headrace/headrace/consumers/export"
	"github.com/headrace/headrace/subjects"
)

// said is what passed in one turn: what the model heard since its last answer,
// what it answered, and what became of the tools that it called.
type said struct {
	heard   []subjects.Message
	text    string
	calls   []export.ToolCall
	results map[string]string // by call
	finish  string
}

// sayings lays a conversation over the turns: the n-th answer of the assistant is
// that of the n-th turn that has one.
func sayings(t *subjects.Trajectory) []said {
	var out []said
	var heard []subjects.Message
	for i, m := range export.Conversation(t.Messages) {
		switch {
		case m.Role == "assistant":
			out = append(out, said{heard: heard, text: m.Content, calls: m.ToolCalls, results: map[string]string{}})
			heard = nil
			continue
		case m.ToolCallID != "" && len(out) > 0:
			out[len(out)-1].results[m.ToolCallID] = m.Content
		}
		heard = append(heard, t.Messages[i])
	}
	return spread(t, out)
}

// spread gives the answers to the turns that were answered.
func spread(t *subjects.Trajectory, answers []said) []said {
	out := make([]said, len(t.Turns))
	n := 0
	for i := range t.Turns {
		u := &t.Turns[i]
		if u.Completion.End > u.Completion.Start && n < len(answers) {
			out[i] = answers[n]
			out[i].finish = u.Finish
			n++
		}
	}
	return out
}

// message and part are a message in the form of the conventions.
type message struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string `json:"type"`
	Content   string `json:"content,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments,omitempty"`
}

func messages(in []subjects.Message) []message {
	out := make([]message, len(in))
	for i, m := range in {
		out[i] = message{Role: m.Role, Parts: []part{{Type: "text", Content: m.Content}}}
	}
	return out
}

func (s *said) answer() message {
	m := message{Role: "assistant", Finish: s.finish}
	if s.text != "" || len(s.calls) == 0 {
		m.Parts = append(m.Parts, part{Type: "text", Content: s.text})
	}
	for _, c := range s.calls {
		m.Parts = append(m.Parts, part{Type: "tool_call", ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return m
}

// version is the policy that sampled a turn's first token.
func (w *teller) version(u *subjects.Turn) (version, bool) {
	if u.Segment < 0 || u.Segment >= len(w.t.Segments) || u.Completion.End == u.Completion.Start {
		return 0, false
	}
	for _, v := range w.t.Segments[u.Segment].Versions {
		if v.Start <= u.Completion.Start && u.Completion.Start < v.End {
			return version(v.Version), true
		}
	}
	return 0, false
}

type version subjects.PolicyVersion

// String is the number.
func (v version) String() string { return strconv.FormatInt(int64(v), 10) }
