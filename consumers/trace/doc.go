// Package trace writes a window of a run as a Perfetto trace: `headrace trace`.
//
// One idea explains its shape: a run's log already has the times. Every episode
// carries those of its turns, every commit how long the trainer trained and
// waited, every engine's answer the phases of its sync, every verdict when its
// group was open. So a trace is drawn after the fact, from any run, of any
// window, and nothing needs to have been switched on. Spans that roles report
// on top (subjects.SpanBatch) are drawn where they belong.
package trace
