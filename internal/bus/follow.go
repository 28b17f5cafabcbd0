package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/subjects"
)

// HeaderMsg is a message without its body.
type HeaderMsg struct {
	Seq     uint64
	Time    time.Time // the server's, when it was stored
	Subject string
	Header  nats.Header
	Size    int // of the body, bytes
	// Skipped counts the sequences missing just before this one: purged, or
	// lost by the server.
	Skipped uint64
}

// Msg is a message with its body.
type Msg struct {
	Seq     uint64
	Time    time.Time
	Subject string
	Header  nats.Header
	Data    []byte
	// Skipped counts the sequences missing just before this one; 0 when the
	// follower is filtered, since other subjects' messages lie between.
	Skipped uint64
	// Pending is how many more messages matched when this one was sent.
	Pending uint64
}

// FollowHeaders hands the headers of ROLLOUTS from a sequence on to fn, without
// end and in order, each exactly once: whatever is available as one slice, which fn
// may not keep (the headers it may). It returns fn's error, or when ctx ends. The
// connection, the server and the consumer may fail meanwhile.
func FollowHeaders(ctx context.Context, c *Conn, run subjects.Run, from uint64, fn func([]HeaderMsg) error) error {
	return errors.ErrUnsupported
}

// FollowStreamHeaders is FollowHeaders for any stream of a run and a subject
// filter; the empty filter is the whole stream.
func FollowStreamHeaders(ctx context.Context, c *Conn, stream, filter string, from uint64, fn func([]HeaderMsg) error) error {
	return errors.ErrUnsupported
}

// Follow hands the messages of a stream from a sequence on to fn, bodies
// included, as FollowHeaders does. At most 32 MiB (four times max_payload, if that
// is more) are on their way.
func Follow(ctx context.Context, c *Conn, stream, filter string, from uint64, fn func(*Msg) error) error {
	return errors.ErrUnsupported
}

// FollowBundles follows ROLLOUTS with bodies, bundles that travelled in parts
// put together. A message that is no bundle comes with its error.
func FollowBundles(ctx context.Context, c *Conn, run subjects.Run, from uint64, fn func(*Msg, *Bundle, error) error) error {
	return errors.ErrUnsupported
}
