// Package replay reads recorded trajectories again: what `headrace replay` sends
// somewhere and `headrace tail` shows as it comes.
//
// One idea explains its shape: a trajectory is chosen by what the headers of its
// message say, so bodies that nobody asked for are never read, and a tap costs a
// live run nothing but a look at headers. What is read twice comes in the same
// order, that of the log, and a digest says that it did.
package replay
