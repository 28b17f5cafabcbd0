// Package advise says in one sentence what limits a run now, with the figures
// behind it and the knob to turn.
//
// One idea explains its shape: a run is a pipeline of which the trainer is the
// last part, so the first question is whether it waits. If it does not, it is
// itself the limit; if it does, something before it is, and each rule names one
// such thing and gives it a weight: the part of the trainer's time that is lost
// to it. The heaviest comes first. Rules are pure functions of a [board.View];
// docs/observe.md says what each sentence means and why its threshold is what it is.
package advise
