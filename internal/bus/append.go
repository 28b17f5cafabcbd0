package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

// Append publishes data on the subject if the last message there has the
// sequence expectLast (0: none yet), and returns its sequence. ErrConflict
// means that somebody else wrote first. An answer that got lost is resolved by
// reading the head, so the result is certain unless ctx ends.
func Append(ctx context.Context, c *Conn, subject string, hdr nats.Header, data []byte, expectLast uint64) (seq uint64, err error) {
	return 0, errors.ErrUnsupported
}

// Send publishes data on the subject under a message id and returns its
// sequence once it is durable. The same id within two minutes is stored once.
func Send(ctx context.Context, c *Conn, subject, id string, hdr nats.Header, data []byte) (seq uint64, err error) {
	return 0, errors.ErrUnsupported
}

// Last is the last message on the subject, which may have wildcards; ErrNotFound when there is none.
func Last(ctx context.Context, c *Conn, stream, subject string) (*Msg, error) {
	return nil, errors.ErrUnsupported
}
