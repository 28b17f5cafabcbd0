// Package producers plays episodes: an agent acts in an environment, a policy
// behind an inference engine writes its words, and what happened becomes one
// [subjects.Trajectory].
//
// The one idea: tokens are only ever appended. The [Player] hands the policy
// the very ids it sampled before, never a second tokenisation of their text,
// and the token ledger (package producers/ledger) refuses a history that is
// not a continuation: it forks a segment instead and counts it. What the model
// sampled is what the trainer sees.
//
// Three small interfaces meet in the Player: [envs.Environment], [Agent] and
// [Policy]. Whatever of them fails, an episode ends as a trajectory with a
// status and a reason, never as a zero reward: an engine that cannot be reached
// and an environment that hangs, errs or panics make it failed, a cancelled
// context makes it aborted.
//
// The sub-packages: agents (the built-in ones), ledger, sglang (a client of
// SGLang's API), pool (a policy over all live engines), service (the role
// `produce`: leases in, trajectories out) and sidecar (the role `engine`: new
// weights into an engine). Only the last two know the bus.
package producers
