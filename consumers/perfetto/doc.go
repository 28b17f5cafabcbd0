// Package perfetto writes traces that ui.perfetto.dev and trace_processor open.
//
// One idea explains its shape: a Perfetto trace is packets one after the other,
// and what a packet repeats (names) is said once and then called by number. So a
// [Writer] is a stream: it keeps the numbers it gave out, nothing of what it
// wrote, and a trace of any length needs the memory of one event. The wire form
// of protobuf is four kinds of fields; they are written here, without a library.
package perfetto
