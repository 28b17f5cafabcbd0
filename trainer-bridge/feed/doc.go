// Package feed is the protocol between a bridge and a trainer, version 1, and
// its Go client.
//
// One idea explains its shape: a frame says what happened, the bytes are
// elsewhere. Every frame is a fixed header, one JSON object, and raw bytes,
// which are empty unless the trainer is on another machine: batches lie in a
// ring of memory whose descriptor travels once, with WELCOME. The same frames
// run over a Unix socket and over TCP.
//
// All integers are little-endian:
//
//	offset  size  field
//	     0     4  magic 0x31465248 ("HRF1")
//	     4     2  type
//	     6     2  flags, zero
//	     8     4  length of the JSON object in bytes, at most 16 MiB
//	    12     4  zero
//	    16     8  length of the raw bytes that follow the JSON object
//
// The trainer asks (NEXT, COMMIT, CHECKPOINTED, WEIGHTS, WAIT_WEIGHTS, each with
// an id of its own) and the bridge answers under that id; RELEASE, NOTICE and BYE
// have no answer. Requests may be pipelined. A frame that breaks the protocol is
// answered with ERROR and the connection closed.
package feed
