package calculator

import (
	"encoding/json"
	"strconv"

	"github.com/headrace/headrace/envs"
)

// system is the system prompt.
const system = "Use the calculator, one operation per call. Finish with Answer: N."

// Phrases of the game. What goes between callPrefix and callSuffix is an
// expression without quotes.
const (
	questionPrefix = "What is "
	questionSuffix = "?"
	answerPrefix   = "Answer: "
	callPrefix     = "<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": \""
	callSuffix     = "\"}}\n</tool_call>"
)

// What a model is told of its mistakes.
const (
	errNoAction   = "error: call the calculator or finish with Answer: N."
	errTool       = "error: the only tool is calculator"
	errArguments  = "error: want arguments with an expression"
	errExpression = "error: want one operation on two whole numbers"
	errOperator   = "error: want + - or *"
	errTooLarge   = "error: number too large"
	errTooMany    = "error: too many calls"
)

// vocabulary lists the phrases above and the two-digit numbers as tokenizer
// pieces: a call is five tokens, a result one.
func vocabulary() []string {
	pieces := []string{
		system, questionPrefix, answerPrefix, callPrefix, callSuffix,
		errNoAction, errTool, errArguments, errExpression, errOperator, errTooLarge, errTooMany,
	}
	for n := 10; n < 100; n++ {
		pieces = append(pieces, strconv.Itoa(n))
	}
	return pieces
}

func tool() envs.Tool {
	return envs.Tool{
		Name:        ToolName,
		Description: "Do one operation on two whole numbers.",
		Parameters: json.RawMessage(`{"type": "object", "properties": {"expression": {"type": "string", ` +
			`"description": "one operation, such as 3+4; operators are + - *"}}, "required": ["expression"]}`),
	}
}

// parseCall reads a tool call. problem is empty, or says for the model what is
// wrong.
func parseCall(call envs.ToolCall) (o operation, problem string) {
	if call.Name != ToolName {
		return o, errTool
	}
	var arguments struct {
		Expression *string `json:"expression"`
	}
	if json.Unmarshal(call.Arguments, &arguments) != nil || arguments.Expression == nil {
		return o, errArguments
	}
	return parseOperation(*arguments.Expression)
}

// callAction is the action that calls the tool.
func callAction(expression string) envs.Action {
	arguments := json.RawMessage(`{"expression": "` + expression + `"}`)
	return envs.Action{
		Text:      callPrefix + expression + callSuffix,
		ToolCalls: []envs.ToolCall{{Name: ToolName, Arguments: arguments}},
	}
}

// answerAction is the action that answers.
func answerAction(n int64) envs.Action {
	return envs.Action{Text: answerPrefix + strconv.FormatInt(n, 10), Final: true}
}
