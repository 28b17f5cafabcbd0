package bus

import (
	"errors"
	"strconv"
)

// What callers branch on, with errors.Is. Errors that come from a server's
// answer also are an [*APIError].
var (
	// ErrStreamFull: the stream holds as much as it may; room comes when somebody purges.
	ErrStreamFull = errors.New("stream is full")
	// ErrConflict: somebody else wrote first; read the head and decide again.
	ErrConflict = errors.New("lost the compare-and-set")
	// ErrTooLarge: the message is larger than the server or its store takes.
	ErrTooLarge = errors.New("message too large")
	// ErrBusy: the stream's ingest queue is full; publish again after a pause.
	ErrBusy = errors.New("stream cannot keep up")
	// ErrQueued: the subject already holds its one message.
	ErrQueued = errors.New("already queued")
	// ErrNoStream: no stream listens there: not created, deleted or without a leader.
	ErrNoStream = errors.New("no such stream")
	// ErrNotFound: no such message, key or consumer.
	ErrNotFound = errors.New("not found")
	// ErrPermission: the connection's user may not do this.
	ErrPermission = errors.New("not permitted")
	// ErrUnreachable: no server answers at the address.
	ErrUnreachable = errors.New("bus unreachable")
	// ErrTimeout: the server did not answer in time; the effect is unknown.
	ErrTimeout = errors.New("no answer in time")
	// ErrIncompatible: something on the bus was made by another version or with other options.
	ErrIncompatible = errors.New("incompatible")
	// ErrDiskFull: the server has no storage left.
	ErrDiskFull = errors.New("no storage left")
	// ErrClosed: the publisher or connection was closed.
	ErrClosed = errors.New("closed")
	// ErrMalformed: a message is not what this package publishes.
	ErrMalformed = errors.New("malformed bundle")
)

// What may keep the embedded server from starting.
var (
	ErrPortInUse   = errors.New("port in use")
	ErrStore       = errors.New("store not usable")
	ErrStoreLocked = errors.New("store in use by another process")
)

// APIError is an answer of the server that is not a success.
type APIError struct {
	Code        int    // JetStream error code, 0 when there is none
	Description string // the server's words
	Op          string // what was asked: "publish", "create stream", ...
	Subject     string // of what: a subject or a stream's name
	Kind        error  // the sentinel above; nil for codes nobody branches on
}

// Error is one line: operation, subject, kind, then the server's words.
func (e *APIError) Error() string {
	s := e.Op + " " + e.Subject + ": "
	if e.Kind != nil {
		s += e.Kind.Error() + ": "
	}
	s += e.Description
	if e.Code != 0 {
		s += " (" + strconv.Itoa(e.Code) + ")"
	}
	return s
}

// Unwrap gives the sentinel.
func (e *APIError) Unwrap() error { return e.Kind }
