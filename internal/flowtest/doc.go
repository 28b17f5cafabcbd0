// Package flowtest tests what holds the pipeline back, and how much memory that
// takes: a trainer that stops, a full stream, a reader that stalls, bodies far
// larger than a message, many long trajectories at once.
//
// The one idea: every queue of Headrace is bounded in bytes, so a stage that is
// slow stops the stages before it, up to the task queue, and costs each of them a
// bound that follows from its configuration (docs/operations.md has the table).
// The tests play against the real stages; those of memory, behind the build tag
// whole, run every role as a process of its own and read the kernel's high-water
// mark of it.
package flowtest
