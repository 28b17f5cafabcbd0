// Package index knows every group and trajectory of a run well enough to list,
// filter, sort and search them at once, however many there are.
//
// One idea explains its shape: what a list needs of a trajectory is a row of 44
// bytes, read from the headers of ROLLOUTS and the entries of LEDGER and never
// from a body. Both streams are folded as they come, in any order relative to each
// other, into the same rows. Bodies are read only once somebody searches: then
// each leaves a signature of its words, which says quickly where a text cannot be;
// where it may be, the body itself is asked.
package index
