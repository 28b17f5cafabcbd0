// Package trainerbridge feeds a trainer from the bus: it lays every batch of
// the ledger out as arrays in memory that the trainer maps, and turns what the
// trainer reports into events on WEIGHTS.
//
// One idea explains its shape: a batch is a function of the log, so the bridge
// owns nothing. The trainer says which step its checkpoint holds and gets the
// step after it, from whichever bridge it reaches, byte for byte the same; a
// ring of prepared batches belongs to one connection and dies with it.
//
// The package has four parts that meet in [Run]: the inspector reads every
// bundle once, dead-letters what no trainer could use and keeps the rest in a
// cache bounded in bytes; the manifests follow LEDGER; a session per connected
// trainer prefetches, answers and reports; the gauges say how it goes.
package trainerbridge
