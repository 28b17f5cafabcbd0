// Package calculator asks small arithmetic questions and offers a calculator
// that does one operation per call, so that the longer ones need several calls
// and the results carried from one to the next.
//
// # A turn
//
// The question is a user message, such as "What is (3+4)*5?". The agent calls
// the tool
//
//	<tool_call>
//	{"name": "calculator", "arguments": {"expression": "3+4"}}
//	</tool_call>
//
// and is shown the result, "7", as a tool message; or it finishes with
// "Answer: 35". Whatever is wrong with a call (an unknown tool, two operations
// at once, a number too large) comes back as a tool message that begins with
// "error". An action that neither calls nor answers gets a user message that
// says so, unless the agent marked it final: then the episode ends.
//
// # Reward
//
// Component "answer" is 1 for the right answer, "format" the share of turns
// that were a well-formed call or an answer; the reward, given when the episode
// ends, weighs the two by parameter format_weight. A turn limit truncates with
// answer 0.
//
// # A curriculum
//
// With the default parameters a question has two operations and all numbers
// lie in 0..99, each of them one piece of the vocabulary: carrying a number
// over is copying one token. min_operations 1 mixes in questions with one
// operation; operands, operators and max_result set the rest.
package calculator

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/headrace/headrace/envs"
)

// Name of the environment in the registry, and ToolName of its tool.
const (
	Name     = "calculator"
	ToolName = "calculator"
)

// maxCalls is how many calls of one action are answered.
const maxCalls = 8

// Spec describes the environment to a registry.
func Spec() envs.Spec {
	return envs.Spec{
		Name: Name,
		Doc:  "Answer an arithmetic question with a calculator that does one operation per call.",
		New: func(params json.RawMessage) (envs.Environment, error) {
			return New(params)
		},
		System:          system,
		Words:           vocabulary(),
		Tools:           []envs.Tool{tool()},
		MaxActionTokens: 16,
		Params:          envs.DescribeParams(DefaultParams()),
		Yardsticks:      Yardsticks,
	}
}

// Calculator is one instance of the environment; see [envs.Environment] for
// its contract.
type Calculator struct {
	envs.Lifecycle
	params Params
	puzzle puzzle
	// solved is how many operations of the puzzle the tool has done in order.
	solved int
	// wellFormed counts the turns that were a sound call or an answer.
	wellFormed int
	// results are what the tool returned, for the demonstrator.
	results []int64
}

// New makes a calculator from a JSON object of [Params].
func New(params json.RawMessage) (*Calculator, error) {
	p := DefaultParams()
	if err := envs.DecodeParams(params, &p); err != nil {
		return nil, err
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	return &Calculator{params: p}, nil
}

// Reset asks the question of the task's seed.
func (c *Calculator) Reset(ctx context.Context, task envs.Task) (envs.Observation, error) {
	if err := c.Start(ctx, task, c.params.MaxTurns); err != nil {
		return envs.Observation{}, err
	}
	var err error
	if c.puzzle, err = newPuzzle(task.Seed, task.HeldOut, c.params); err != nil {
		return envs.Observation{}, err
	}
	c.solved, c.wellFormed, c.results = 0, 0, c.results[:0]
	return say(envs.RoleUser, c.puzzle.question()), nil
}

// Step answers the action's tool calls, or judges its answer.
func (c *Calculator) Step(ctx context.Context, action envs.Action) (envs.StepResult, error) {
	if err := c.Turn(ctx); err != nil {
		return envs.StepResult{}, err
	}
	result := c.respond(action)
	if result.Terminated || c.Last() {
		answer := result.Reward
		format := float64(c.wellFormed) / float64(c.Turns())
		result.Reward = (1-c.params.FormatWeight)*answer + c.params.FormatWeight*format
		result.Components = map[string]float64{"answer": answer, "format": format}
	}
	return c.Settle(result), nil
}

// respond gives the next observation, or ends the episode with the answer's
// worth as the reward.
func (c *Calculator) respond(action envs.Action) envs.StepResult {
	if len(action.ToolCalls) > 0 {
		return c.call(action.ToolCalls)
	}
	given, ok := strings.CutPrefix(strings.TrimSpace(action.Text), answerPrefix)
	if ok {
		c.wellFormed++
		return c.judge(given)
	}
	if action.Final {
		return envs.StepResult{Terminated: true, Info: map[string]string{"end": "no answer"}}
	}
	return envs.StepResult{Observation: say(envs.RoleUser, errNoAction), Info: map[string]string{"action": "invalid"}}
}

func (c *Calculator) judge(given string) envs.StepResult {
	n, err := strconv.ParseInt(strings.TrimSpace(given), 10, 64)
	if err == nil && n == c.puzzle.answer() {
		return envs.StepResult{Reward: 1, Terminated: true, Info: map[string]string{"end": "right"}}
	}
	return envs.StepResult{Terminated: true, Info: map[string]string{"end": "wrong"}}
}

func (c *Calculator) call(calls []envs.ToolCall) envs.StepResult {
	var messages []envs.Message
	sound := true
	for i, call := range calls {
		if i == maxCalls {
			sound = false
			messages = append(messages, answerOf(errTooMany))
			break
		}
		text, ok := c.calculate(call)
		sound = sound && ok
		messages = append(messages, answerOf(text))
	}
	result := envs.StepResult{Observation: envs.Observation{Messages: messages}}
	if sound {
		c.wellFormed++
	} else {
		result.Info = map[string]string{"action": "invalid"}
	}
	return result
}

// calculate does one call and notes whether it was the puzzle's next step.
func (c *Calculator) calculate(call envs.ToolCall) (text string, ok bool) {
	op, problem := parseCall(call)
	if problem != "" {
		return problem, false
	}
	value := op.value()
	if c.solved < len(c.puzzle) && op == c.puzzle[c.solved] {
		c.solved++
	}
	c.results = append(c.results, value)
	return strconv.FormatInt(value, 10), true
}

func say(role, text string) envs.Observation {
	return envs.Observation{Messages: []envs.Message{{Role: role, Content: text}}}
}

func answerOf(text string) envs.Message {
	return envs.Message{Role: envs.RoleTool, Name: ToolName, Content: text}
}
