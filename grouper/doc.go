// Package grouper turns the stream of finished trajectories into groups and
// batches. It is the pure core: no goroutine, clock, logger or broker.
//
// One idea explains its shape: the state is a fold of the log. Events (index
// entries of ROLLOUTS, events of WEIGHTS, the inspector's verdicts) only note
// what happened; [Core.Decide] says what follows from it as one ledger entry,
// applying each decision with the functions that [Core.Apply] replays entries
// with. So a core that is rebuilt from the log goes on exactly where the old
// one was, timers included: every time in it comes from the log.
package grouper
