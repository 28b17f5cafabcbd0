package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/headrace/headrace/envs"
)

const (
	openCall  = "<tool_call>"
	closeCall = "</tool_call>"
)

// useTools reads the calls of a completion. One that has none, or any that
// cannot be read, is the final answer, raw.
func useTools(completion string) envs.Action {
	calls, err := ParseToolCalls(completion)
	if err != nil || len(calls) == 0 {
		return envs.Action{Text: completion, Final: true}
	}
	return envs.Action{Text: completion, ToolCalls: calls}
}

var errUnclosed = errors.New("a tool call is not closed")

// ParseToolCalls finds the calls in a completion, in order, each written as
//
//	<tool_call>
//	{"name": "search", "arguments": {"query": "headrace"}}
//	</tool_call>
//
// Arguments may also be a string that holds their JSON, and may be missing.
// It returns nil when there is no call and an error when one cannot be read.
func ParseToolCalls(text string) ([]envs.ToolCall, error) {
	var calls []envs.ToolCall
	for {
		_, rest, found := strings.Cut(text, openCall)
		if !found {
			return calls, nil
		}
		body, rest, closed := strings.Cut(rest, closeCall)
		if !closed {
			return nil, errUnclosed
		}
		call, err := parseCall(body)
		if err != nil {
			return nil, fmt.Errorf("tool call %d: %w", len(calls)+1, err)
		}
		calls = append(calls, call)
		text = rest
	}
}

func parseCall(body string) (envs.ToolCall, error) {
	var call envs.ToolCall
	if err := json.Unmarshal([]byte(body), &call); err != nil {
		return call, err
	}
	if call.Name == "" {
		return call, errors.New("no name")
	}
	if bytes.HasPrefix(call.Arguments, []byte(`"`)) {
		var inner string
		if err := json.Unmarshal(call.Arguments, &inner); err != nil {
			return call, err
		}
		call.Arguments = json.RawMessage(inner) // JSON or not: the environment judges it
	}
	return call, nil
}
