// Package nice lets a process that only looks at a run give way to those that
// play it.
//
// One idea explains its shape: the kernel shares the processor already, so nothing
// here waits, measures or counts. A reader lowers its priority once, when it
// starts, and takes what the others leave: all of an idle machine, a tenth of
// their share of a busy one.
package nice

// Reader is the nice value of commands that only look: the processor's time goes to
// a process at the ordinary value, 0, about ten times as readily. At 19, the
// highest, it would be seventy times, and a look beside a trainer that uses every
// core would take minutes.
const Reader = 10

// Highest is the highest nice value: the lowest priority.
const Highest = 19

// GiveWay lowers the priority of this process to a nice value, with all threads
// that it has and will have; one that is lower already stays as it is. It cannot be
// taken back. Where the system knows no such thing it does nothing.
func GiveWay(to int) error { return giveWay(min(max(to, 0), Highest)) }
