// Package spans records what a process does, for traces.
//
// One idea explains its shape: recording must cost so little that nobody
// switches it off. A span is a few words copied into a bounded buffer, and what
// finds no room is counted and gone; names are numbers from the start. About once
// a second the buffer is exchanged for an empty one and sent as one message, with
// how far this process's clock is from the server's, so that the spans of all
// processes lie on one line of time. A process that plays more episodes than it can
// record draws some of them by lot: see [Episode].
package spans
