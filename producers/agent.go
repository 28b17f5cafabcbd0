package producers

import "github.com/headrace/headrace/envs"

// Agent stands between an environment and the model: it decides what the model
// is shown and what its words mean.
//
// Concurrent: no; an instance serves one episode from one goroutine. Nothing is
// closed. An agent does not fail: words that make no sense to it are an action
// all the same, and the environment judges them.
type Agent interface {
	// Observe returns what to show the model for an observation. The first
	// call opens the episode.
	Observe(obs envs.Observation) View
	// Act turns a completion, control tokens removed, into an action.
	Act(completion string) envs.Action
}

// View is what an agent wants the model to see next.
type View struct {
	// Messages follow the conversation so far or, if Whole, replace it.
	Messages []envs.Message
	// Whole marks a conversation from its start: always true of the first
	// view, later only of agents that rewrite their history, which costs a
	// new segment unless the tokens turn out to continue the old ones.
	Whole bool
}
