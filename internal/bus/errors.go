package bus

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What callers branch on, with errors.Is. Errors that come from a server's
// answer also are an [*APIError].
var (
	// ErrStreamFull: the stream holds as much as it may; room comes when somebody purges.
	ErrStreamFull = errors.New("stream is full")
	// ErrConflict: somebody else wrote first; read the head and decide again.
	ErrConflict = errors.New("lost the compare-and-set")
	// ErrTooLarge: the message is larger than the server, the stream or the store takes.
	ErrTooLarge = errors.New("message too large")
	// ErrBusy: the stream's ingest queue is full; publish again after a pause.
	ErrBusy = errors.New("stream cannot keep up")
	// ErrQueued: the subject already holds its one message.
	ErrQueued = errors.New("already queued")
	// ErrNoStream: no stream listens there: not created, deleted or without a leader.
	ErrNoStream = errors.New("no such stream")
	// ErrNoJetStream: the server or the account runs without JetStream.
	ErrNoJetStream = errors.New("JetStream not available")
	// ErrNotFound: no such message, key or consumer.
	ErrNotFound = errors.New("not found")
	// ErrPermission: the connection's user may not do this.
	ErrPermission = errors.New("not permitted")
	// ErrUntrusted: client and server do not agree on TLS, or the certificate does not hold.
	ErrUntrusted = errors.New("not trusted")
	// ErrUnreachable: no server answers at the address.
	ErrUnreachable = errors.New("bus unreachable")
	// ErrTimeout: no answer came, or the connection broke before it; the effect is unknown.
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

// APIError is an answer of the server that is not a success, or its absence.
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
		s += e.Kind.Error()
		if e.Description != "" {
			s += ": "
		}
	}
	s += e.Description
	if e.Code != 0 {
		s += " (" + strconv.Itoa(e.Code) + ")"
	}
	return s
}

// Unwrap gives the sentinel.
func (e *APIError) Unwrap() error { return e.Kind }

// storeFailed is the JetStream code with several meanings; only the words tell them apart.
const storeFailed = 10077

// codes maps JetStream error codes to what callers branch on.
var codes = map[int]error{
	10071: ErrConflict, // wrong last sequence, with the number
	10164: ErrConflict, // the same while a conflicting write is in flight on a cluster
	10054: ErrTooLarge, // over the stream's max_msg_size
	10167: ErrBusy,     // ingest queue full
	10008: ErrBusy,     // no leader for the moment
	10059: ErrNoStream,
	10014: ErrNotFound, // consumer
	10037: ErrNotFound, // message
	10035: ErrNoJetStream,
	10039: ErrNoJetStream,
	10076: ErrNoJetStream,
	10002: ErrDiskFull, // account's limits
	10023: ErrDiskFull, // server's resources
	10028: ErrDiskFull, // memory storage
	10047: ErrDiskFull, // file storage
	10058: ErrIncompatible,
	10052: ErrIncompatible, // an update the stream does not allow
	10013: ErrIncompatible, // consumer name in use with another configuration
	10148: ErrIncompatible, // consumer exists with another configuration
}

// storeFailures tells the meanings of storeFailed apart.
var storeFailures = []struct {
	words string
	kind  error
}{
	{"maximum messages per subject exceeded", ErrQueued},
	{"maximum bytes exceeded", ErrStreamFull},
	{"maximum messages exceeded", ErrStreamFull},
	{"message too large", ErrTooLarge},
	{"no space left", ErrDiskFull},
}

// kindOf is the sentinel of a JetStream error, nil when it has none.
func kindOf(code int, description string) error {
	if code != storeFailed {
		return codes[code]
	}
	for _, f := range storeFailures {
		if strings.Contains(description, f.words) {
			return f.kind
		}
	}
	return nil
}

// libraryKinds maps errors of the client library.
var libraryKinds = []struct{ err, kind error }{
	{nats.ErrNoResponders, ErrNoStream},
	{jetstream.ErrNoStreamResponse, ErrNoStream},
	{jetstream.ErrStreamNotFound, ErrNoStream},
	{jetstream.ErrBucketNotFound, ErrNoStream},
	{jetstream.ErrMsgNotFound, ErrNotFound},
	{jetstream.ErrKeyNotFound, ErrNotFound},
	{jetstream.ErrKeyDeleted, ErrNotFound},
	{jetstream.ErrConsumerNotFound, ErrNotFound},
	{jetstream.ErrKeyExists, ErrConflict},
	{jetstream.ErrBucketExists, ErrIncompatible},
	{jetstream.ErrJetStreamNotEnabled, ErrNoJetStream},
	{jetstream.ErrJetStreamNotEnabledForAccount, ErrNoJetStream},
	{nats.ErrMaxPayload, ErrTooLarge},
	{nats.ErrPermissionViolation, ErrPermission},
	{nats.ErrAuthorization, ErrPermission},
	{nats.ErrReconnectBufExceeded, ErrTimeout},
	{nats.ErrDisconnected, ErrTimeout},
	{nats.ErrTimeout, ErrTimeout},
	{context.DeadlineExceeded, ErrTimeout},
	{nats.ErrConnectionClosed, ErrClosed},
	{nats.ErrConnectionDraining, ErrClosed},
}

// classify gives an error of the client library its type. Errors that already
// have one, and a caller's cancellation, pass through.
func classify(op, subject string, err error) error {
	var typed *APIError
	if err == nil || errors.As(err, &typed) || errors.Is(err, context.Canceled) {
		return err
	}
	out := &APIError{Op: op, Subject: subject, Description: err.Error()}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		out.Code, out.Description = int(api.ErrorCode), api.Description
		out.Kind = kindOf(out.Code, out.Description)
	}
	for _, l := range libraryKinds {
		if out.Kind == nil && errors.Is(err, l.err) {
			out.Kind = l.kind
		}
	}
	return out
}
