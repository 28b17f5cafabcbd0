// Package app is the program: `headrace up`, every role alone, and what looks
// at runs.
//
// One idea explains its shape: here, and nowhere else, the stages are wired
// together. A role that runs inside `up` and one that runs alone are the same
// function of a [member] of a run; `up` adds the server, the Python processes
// and the order in which all of it starts and stops.
package app
