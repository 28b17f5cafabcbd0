// Package export writes what a run recorded for other programs, and reads it
// back: `headrace export` and `headrace import`.
//
// One idea explains its shape: every format is a writer of the same records. The
// ledger is read once into what each trajectory came to, about a hundred bytes
// each; then ROLLOUTS is read once, in order, and each body becomes a [Record]
// that a [Writer] takes. So memory does not grow with bodies, the order is that
// of the log, and equal logs give equal files.
package export
