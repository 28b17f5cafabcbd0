package export

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/headrace/headrace/subjects"
)

// Message is one message of a conversation as chat APIs have it.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	Name       string     `json:"name,omitempty"`
}

// ToolCall is a function that the model calls. Arguments are JSON in a string.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is what is called, and with what.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

const (
	openCall  = "<tool_call>"
	closeCall = "</tool_call>"
)

// conversation is the trajectory's text with its tool calls taken out of it: in
// the log they are text, <tool_call> and JSON, as the model wrote them. A message
// in which one cannot be read stays as it is. Answers of tools follow the calls in
// order.
func conversation(in []subjects.Message) []Message {
	out := []Message{}
	var waiting []ToolCall
	made := 0
	for _, m := range in {
		v := Message{Role: m.Role, Content: m.Content, Name: m.Name}
		switch m.Role {
		case "assistant":
			waiting = nil
			if text, calls, ok := toolCalls(m.Content, &made); ok {
				v.Content, v.ToolCalls, waiting = text, calls, calls
			}
		case "tool":
			if len(waiting) > 0 {
				v.ToolCallID, waiting = waiting[0].ID, waiting[1:]
			}
		}
		out = append(out, v)
	}
	return out
}

// toolCalls takes the calls out of a completion, and numbers them from made on.
func toolCalls(text string, made *int) (rest string, calls []ToolCall, ok bool) {
	var plain strings.Builder
	for {
		before, after, found := strings.Cut(text, openCall)
		plain.WriteString(before)
		if !found {
			break
		}
		body, tail, closed := strings.Cut(after, closeCall)
		var call struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if !closed || json.Unmarshal([]byte(body), &call) != nil || call.Name == "" {
			return "", nil, false
		}
		arguments := string(call.Arguments)
		var inner string
		if json.Unmarshal(call.Arguments, &inner) == nil {
			arguments = inner // it was a string already
		}
		if len(call.Arguments) == 0 {
			arguments = "{}"
		}
		calls = append(calls, ToolCall{Type: "function", Function: Function{call.Name, arguments}})
		text = tail
	}
	for i := range calls {
		*made++
		calls[i].ID = fmt.Sprintf("call_%d", *made)
	}
	return strings.TrimSpace(plain.String()), calls, len(calls) > 0
}
