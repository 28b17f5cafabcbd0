// Package show finds one thing of a run and says what it is: the batch of a step,
// a group, a trajectory, a dead letter.
//
// One idea explains its shape: everything has an address, and the ledger knows
// most of them. What it knows is fetched by sequence; only what it does not know,
// a trajectory that no verdict names, is looked for in the headers of ROLLOUTS,
// from the place on at which its group was issued.
package show
