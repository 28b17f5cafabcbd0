package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// pubAck is JetStream's answer to a publish.
type pubAck struct {
	Stream    string  `json:"stream"`
	Seq       uint64  `json:"seq"`
	Duplicate bool    `json:"duplicate"`
	Error     *apiErr `json:"error"`
}

type apiErr struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiErr) typed(op, subject string) error {
	return &APIError{Op: op, Subject: subject, Code: e.Code, Description: e.Description, Kind: kindOf(e.Code, e.Description)}
}

// publish publishes once and waits for the acknowledgement. An error of kind
// ErrTimeout leaves open whether the message was stored.
func (c *Conn) publish(ctx context.Context, op, subject string, hdr nats.Header, data []byte) (pubAck, error) {
	m, err := c.request(ctx, op, subject, hdr, data)
	if err != nil {
		return pubAck{}, err
	}
	return parseAck(op, subject, m.Data)
}

func parseAck(op, subject string, data []byte) (ack pubAck, err error) {
	if err := json.Unmarshal(data, &ack); err != nil {
		return ack, fmt.Errorf("%s %s: answer is no acknowledgement: %.80q", op, subject, data)
	}
	if ack.Error != nil {
		return ack, ack.Error.typed(op, subject)
	}
	if ack.Seq == 0 {
		return ack, fmt.Errorf("%s %s: answer is no acknowledgement: %.80q", op, subject, data)
	}
	return ack, nil
}

const (
	retryMin   = 20 * time.Millisecond
	retryMax   = 2 * time.Second
	maxMissing = 10 // answers "no such stream" in a row before it is believed: leaders change
)

// retry decides whether an operation that may be repeated is.
type retry struct {
	n, missing int
	last       error // the latest answer; the end of ctx says less
}

// again returns nil when the operation should be repeated, after a pause and
// with a connection, else the error to give the caller.
func (r *retry) again(ctx context.Context, c *Conn, err error) error {
	switch {
	case ctx.Err() != nil:
		if r.last != nil {
			err = r.last
		}
		return fmt.Errorf("%w: %w", err, ctx.Err())
	case errors.Is(err, ErrTimeout), errors.Is(err, ErrBusy):
	case errors.Is(err, ErrNoStream), errors.Is(err, ErrNoJetStream):
		if r.missing++; r.missing > maxMissing {
			return err
		}
	default:
		return err
	}
	r.n++
	r.last = err
	cause := pause(ctx, backoff(r.n, retryMin, retryMax))
	if cause == nil {
		cause = c.awaitUp(ctx)
	}
	if cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return nil
}

// Send publishes data on the subject under a message id and returns its
// sequence once it is durable, through reconnects until ctx ends. The same id
// within two minutes is stored once. A full stream is an ErrStreamFull at once.
func Send(ctx context.Context, c *Conn, subject, id string, hdr nats.Header, data []byte) (seq uint64, err error) {
	h := withHeader(hdr, jetstream.MsgIDHeader, id)
	for r := (retry{}); ; {
		ack, err := c.publish(ctx, "publish to", subject, h, data)
		if err == nil {
			return ack.Seq, nil
		}
		if err := r.again(ctx, c, err); err != nil {
			return 0, err
		}
	}
}

// withHeader is a copy of h with one more value; the caller's stays as it is.
func withHeader(h nats.Header, key, value string) nats.Header {
	out := make(nats.Header, len(h)+2)
	maps.Copy(out, h)
	out[key] = []string{value}
	return out
}
