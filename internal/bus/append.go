package bus

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Append publishes data on the subject if the last message there has the
// sequence expectLast (0: none yet), and returns its sequence. ErrConflict
// means that somebody else wrote first. An answer that got lost is resolved by
// reading who won, so the result is certain unless ctx ends.
func Append(ctx context.Context, c *Conn, subject string, hdr nats.Header, data []byte, expectLast uint64) (seq uint64, err error) {
	h := withHeader(hdr, jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expectLast, 10))
	if h.Get(jetstream.MsgIDHeader) == "" {
		h[jetstream.MsgIDHeader] = []string{rand.Text()}
	}
	var r retry
	for ambiguous := false; ; {
		ack, err := c.publish(ctx, "append to", subject, h, data)
		switch {
		case err == nil && !ack.Duplicate:
			return ack.Seq, nil
		case err == nil, ambiguous && errors.Is(err, ErrConflict):
			return c.winner(ctx, ack.Stream, subject, h, data, expectLast)
		}
		ambiguous = ambiguous || errors.Is(err, ErrTimeout)
		if err := r.again(ctx, c, err); err != nil {
			return 0, err
		}
	}
}

// winner finds the message that followed expectLast on the subject: it is ours
// or somebody else's, whatever has been written after it.
func (c *Conn) winner(ctx context.Context, stream, subject string, h nats.Header, data []byte, expectLast uint64) (uint64, error) {
	m, err := c.read(ctx, stream, msgGet{Seq: expectLast + 1, NextFor: subject})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	if err == nil && m.Header.Get(jetstream.MsgIDHeader) == h.Get(jetstream.MsgIDHeader) && bytes.Equal(m.Data, data) {
		return m.Seq, nil
	}
	return 0, &APIError{Op: "append to", Subject: subject, Kind: ErrConflict, Description: "another writer followed sequence " + strconv.FormatUint(expectLast, 10)}
}

// Last is the last message on the subject, which may have wildcards, as the
// stream's leader has it; ErrNotFound when there is none.
func Last(ctx context.Context, c *Conn, stream, subject string) (*Msg, error) {
	return c.read(ctx, stream, msgGet{LastFor: subject})
}

// Read is the message with that sequence, as the stream's leader has it;
// ErrNotFound when there is none. For many messages use a [Fetcher].
func Read(ctx context.Context, c *Conn, stream string, seq uint64) (*Msg, error) {
	return c.read(ctx, stream, msgGet{Seq: seq})
}

// msgGet is the request of a single message.
type msgGet struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
}

type msgGetAnswer struct {
	Error   *apiErr `json:"error"`
	Message struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
}

// read asks the stream's leader, so that it sees every acknowledged write; it
// asks again through reconnects.
func (c *Conn) read(ctx context.Context, stream string, req msgGet) (*Msg, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	for r := (retry{}); ; {
		m, err := c.request(ctx, "read from", c.api+"STREAM.MSG.GET."+stream, nil, body)
		if err == nil {
			return parseMsgGet(stream, m.Data)
		}
		if err := r.again(ctx, c, err); err != nil {
			return nil, err
		}
	}
}

func parseMsgGet(stream string, b []byte) (*Msg, error) {
	var a msgGetAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("read from %s: %w", stream, err)
	}
	if a.Error != nil {
		return nil, a.Error.typed("read from", stream)
	}
	m := &Msg{Seq: a.Message.Seq, Time: a.Message.Time, Subject: a.Message.Subject, Data: a.Message.Data}
	if len(a.Message.Header) == 0 {
		return m, nil
	}
	h, err := nats.DecodeHeadersMsg(a.Message.Header)
	if err != nil {
		return nil, fmt.Errorf("read from %s: message %d: %w", stream, m.Seq, err)
	}
	m.Header = h
	return m, nil
}
