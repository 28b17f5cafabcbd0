// Package envs holds what an agent plays against: the small interface that
// every environment implements, and the messages and actions that cross it.
//
// The one idea: an environment is a plain value that one goroutine drives,
//
//	Reset -> Observation -> (Step Action -> StepResult)* -> Close
//
// It knows nothing of tokens, models or the bus. It shows [Message] values and
// is given an [Action]; how a model's text becomes an action is the agent's
// business (package producers), how messages become tokens is the chat
// template's (package producers/tokenizer).
//
// # What there is
//
// The built-in environments are in sub-packages, each with its own parameters
// documented on its Params type, and package envs/builtin lists them by name:
//
//   - frozenlake: Gymnasium's FrozenLake-v1, exactly (maps, slipperiness,
//     rewards), and random maps whose difficulty is bounded, shown as text.
//   - calculator: arithmetic questions that need one or two calls of a
//     calculator tool; reward components for the answer and for the format.
//
// # What decides an episode
//
// Task.Seed decides the puzzle, so the trajectories of a group, which share a
// task, meet the same map or question. Task.Rollout decides what happens by
// chance afterwards (which way the ice is slippery). Task.HeldOut keeps the
// puzzles of evaluation and training apart, even where two seeds would give
// the same one. The same task and actions give the same episode on every
// machine.
//
// # Writing another
//
// Implement [Environment], give it a [Spec], put the Spec in the map handed to
// the producers, and run the conformance suite on it:
//
//	func TestConformance(t *testing.T) { envtest.Run(t, myenv.Spec(), envtest.Options{}) }
package envs
