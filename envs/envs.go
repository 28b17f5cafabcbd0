package envs

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
)

// Roles of a [Message].
const (
	RoleSystem    = "system"
	RoleUser      = "user"
	RoleAssistant = "assistant"
	RoleTool      = "tool"
)

// Message is one turn of a conversation, as a person would read it.
type Message struct {
	// Role is one of the Role constants.
	Role string `json:"role"`
	// Content is plain text. Control tokens of a chat template that appear
	// in it are only text.
	Content string `json:"content"`
	// Name is the tool that answered; empty for the other roles.
	Name string `json:"name,omitempty"`
}

// Task is what one episode is to play.
type Task struct {
	// Env is the name of the environment in the registry.
	Env string `json:"env"`
	// Seed decides the puzzle: the slots of a group share it.
	Seed int64 `json:"seed"`
	// Rollout decides what happens by chance after the start (slippery ice):
	// the slots of a group differ in it. Zero is a value like any other.
	Rollout int64 `json:"rollout,omitempty"`
	// HeldOut asks for a puzzle that tasks without it never get, whatever
	// their seeds: the evaluation's. Where puzzles are drawn from the seed,
	// one in eight distinct puzzles is held out; see HeldOut. Environments
	// with one puzzle, or with a dataset, ignore it.
	HeldOut bool `json:"held_out,omitempty"`
	// Data is the record of a dataset, for environments that read one;
	// those that only need the seed ignore it.
	Data json.RawMessage `json:"data,omitempty"`
	// MaxTurns bounds the steps of the episode; 0 leaves the environment's
	// own limit, which is never raised by it.
	MaxTurns int `json:"max_turns,omitempty"`
}

// Observation is what the agent is shown: user or tool messages, at least one
// while the episode goes on.
type Observation struct {
	Messages []Message `json:"messages"`
}

// Action is what the agent decided in one turn.
type Action struct {
	// Text is the whole completion, markup of tool calls included.
	Text string `json:"text"`
	// ToolCalls are the calls that the agent found in the text, in order.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// Final says that the agent takes this for its last word: an environment
	// that waits for an answer judges it and terminates.
	Final bool `json:"final,omitempty"`
}

// ToolCall asks for one call of a named tool.
type ToolCall struct {
	// ID ties an answer to its call where a model gives one; else empty.
	ID string `json:"id,omitempty"`
	// Name is the tool's name, right or wrong: the environment judges it.
	Name string `json:"name"`
	// Arguments is what the model wrote: JSON, or not.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Tool describes a tool that an environment offers.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Parameters is a JSON schema of the arguments.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// StepResult is what an action led to.
type StepResult struct {
	// Observation is the next thing to show; on the last step it may be
	// empty or say how it ended.
	Observation Observation `json:"observation"`
	// Reward is this step's; an episode's is their sum.
	Reward float64 `json:"reward"`
	// Components are named parts for people and curves ("answer",
	// "format"); Reward is what is trained on. May be nil.
	Components map[string]float64 `json:"components,omitempty"`
	// Terminated says that the rules ended the episode, Truncated that a
	// turn limit did. After either, Step returns ErrDone.
	Terminated bool `json:"terminated"`
	Truncated  bool `json:"truncated"`
	// Info holds facts for a log ("end": "hole"). May be nil.
	Info map[string]string `json:"info,omitempty"`
}

// Done reports whether the episode is over.
func (r StepResult) Done() bool { return r.Terminated || r.Truncated }

// Errors of an [Environment] that callers branch on.
var (
	// ErrNotReset is returned by Step before the first Reset.
	ErrNotReset = errors.New("environment was not reset")
	// ErrDone is returned by Step after the episode ended.
	ErrDone = errors.New("episode is over")
	// ErrClosed is returned by Reset and Step after Close.
	ErrClosed = errors.New("environment is closed")
)

// Environment plays one episode at a time.
//
// Concurrent: no; one goroutine drives an instance. Different instances share
// nothing that is written and may run at the same time by the thousand.
//
// Errors: a mistake of the model (an unknown word, a malformed tool call, a
// division by zero) is part of the game and comes back as an observation. An
// error means that the episode cannot go on: ErrNotReset, ErrDone, ErrClosed,
// the context's error, or a fault of the environment. The caller then fails
// the trajectory; it is never trained on.
type Environment interface {
	// Reset starts the episode that the task describes, whatever state the
	// instance was in (Close excepted), and returns what to show first.
	Reset(ctx context.Context, task Task) (Observation, error)
	// Step applies one action. It honours ctx before anything is changed.
	Step(ctx context.Context, action Action) (StepResult, error)
	// Close frees what the instance holds. The caller of Spec.New closes it;
	// closing twice is no error.
	Close() error
}

// Demonstrator is implemented by environments that can play themselves, to
// make data for a supervised warm start.
type Demonstrator interface {
	// Demonstrate returns an action for the present state, whose Text is the
	// completion a model should have written: the best one with probability
	// skill (0..1), else one at random. It draws only from rng and does not
	// step. The episode must be going on, else it returns the zero Action.
	Demonstrate(rng *rand.Rand, skill float64) Action
}
