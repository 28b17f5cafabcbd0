// Package agents holds the built-in agents: how a conversation is opened, what
// the model's words mean.
//
//   - model: one turn; what the model writes is the answer.
//   - conversation: turns of text; the environment reads each as it is.
//   - tool: the model calls tools in between, written as Qwen and Hermes write
//     them; a turn without a call is the answer.
//
// All of them only append to the conversation, so an episode stays one segment.
package agents

import (
	"fmt"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/producers"
)

// Kind names a built-in agent.
type Kind string

// The built-in agents.
const (
	Model        Kind = "model"
	Conversation Kind = "conversation"
	Tool         Kind = "tool"
)

// Kinds lists them.
func Kinds() []Kind { return []Kind{Model, Conversation, Tool} }

// New returns a constructor of agents of a kind. The system prompt, unless
// empty, opens every episode.
func New(kind Kind, system string) (func() producers.Agent, error) {
	act, ok := map[Kind]func(string) envs.Action{Model: answer, Conversation: speak, Tool: useTools}[kind]
	if !ok {
		return nil, fmt.Errorf("unknown agent %q: known are %v", kind, Kinds())
	}
	return func() producers.Agent { return &agent{system: system, act: act} }, nil
}

// agent appends whatever it observes and acts by one pure function.
type agent struct {
	system string
	act    func(string) envs.Action
	opened bool
}

func (a *agent) Observe(obs envs.Observation) producers.View {
	if a.opened {
		return producers.View{Messages: obs.Messages}
	}
	a.opened = true
	if a.system == "" {
		return producers.View{Messages: obs.Messages, Whole: true}
	}
	messages := append([]envs.Message{{Role: envs.RoleSystem, Content: a.system}}, obs.Messages...)
	return producers.View{Messages: messages, Whole: true}
}

func (a *agent) Act(completion string) envs.Action { return a.act(completion) }

func answer(completion string) envs.Action { return envs.Action{Text: completion, Final: true} }

func speak(completion string) envs.Action { return envs.Action{Text: completion} }
