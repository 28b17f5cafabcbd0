package bus

import (
	"context"
	"errors"
	"strconv"
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
	// lost by the server. 0 when the follower is filtered.
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

const (
	headerPull      = 1024     // messages in one pull of headers
	headerPullBytes = 8 << 20  // and their bytes: over the largest header
	headerChunk     = 1 << 20  // bytes of one slice of headers: consumers queue a few of them
	bodyPull        = 512      // messages in one pull of bodies
	bodyPullBytes   = 32 << 20 // over max_payload, or the server spins; under the client's limits
)

// FollowHeaders hands the headers of ROLLOUTS from a sequence on to fn, without
// end and in order, each exactly once: what is available as one slice of about 1 MiB
// at most, which fn may not keep (the headers it may). It returns fn's error, or when ctx ends. The
// connection, the server and the consumer may fail meanwhile. ErrIncompatible
// means that the stream ends before the offset: it is not the one that was read.
func FollowHeaders(ctx context.Context, c *Conn, run subjects.Run, from uint64, fn func([]HeaderMsg) error) error {
	return FollowStreamHeaders(ctx, c, run.StreamName(subjects.Rollouts), "", from, fn)
}

// FollowStreamHeaders is FollowHeaders for any stream and a subject filter; the
// empty filter is the whole stream.
func FollowStreamHeaders(ctx context.Context, c *Conn, stream, filter string, from uint64, fn func([]HeaderMsg) error) error {
	f := follower{conn: c, stream: stream, filter: filter, next: from}
	return f.headers(ctx, fn)
}

// EachHeaders hands the headers of what a stream holds from a sequence on to fn, as
// FollowStreamHeaders does, and returns when it had all that was there. A stream
// may have lost the message of its last sequence: who waits for that waits for ever.
func EachHeaders(ctx context.Context, c *Conn, stream, filter string, from uint64, fn func([]HeaderMsg) error) error {
	f := follower{conn: c, stream: stream, filter: filter, next: from, untilEnd: true}
	if err := f.headers(ctx, fn); !errors.Is(err, errEnd) {
		return err
	}
	return nil
}

func (f *follower) headers(ctx context.Context, fn func([]HeaderMsg) error) error {
	f.headersOnly, f.batch, f.maxBytes, f.chunk = true, headerPull, headerPullBytes, headerChunk
	var out []HeaderMsg
	return f.run(ctx, func(in []arrival) error {
		out = out[:0]
		for _, a := range in {
			size := 0
			if v := a.msg.Header["Nats-Msg-Size"]; len(v) > 0 {
				size, _ = strconv.Atoi(v[0])
			}
			out = append(out, HeaderMsg{Seq: a.seq, Time: a.time, Subject: a.msg.Subject, Header: a.msg.Header, Size: size, Skipped: a.skipped})
		}
		return fn(out)
	})
}

// Follow hands the messages of a stream from a sequence on to fn, bodies
// included, as FollowHeaders does. Two pulls of at most 32 MiB (four times
// max_payload, if that is more) are on their way.
func Follow(ctx context.Context, c *Conn, stream, filter string, from uint64, fn func(*Msg) error) error {
	f := follower{conn: c, stream: stream, filter: filter, next: from, batch: bodyPull, maxBytes: bodyPullBytes}
	return f.each(ctx, fn)
}

// Each hands what a stream holds from a sequence on to fn, as Follow does, and
// returns when it had all that was there.
func Each(ctx context.Context, c *Conn, stream, filter string, from uint64, fn func(*Msg) error) error {
	f := follower{conn: c, stream: stream, filter: filter, next: from, untilEnd: true, batch: bodyPull, maxBytes: bodyPullBytes}
	if err := f.each(ctx, fn); !errors.Is(err, errEnd) {
		return err
	}
	return nil
}

// FollowLatest is Follow from the last message of each subject on.
func FollowLatest(ctx context.Context, c *Conn, stream, filter string, fn func(*Msg) error) error {
	f := follower{conn: c, stream: stream, filter: filter, latest: true, batch: bodyPull, maxBytes: bodyPullBytes}
	return f.each(ctx, fn)
}

// EachLatest hands the last message of each subject to fn, as they are now, and
// returns when it had them all.
func EachLatest(ctx context.Context, c *Conn, stream, filter string, fn func(*Msg) error) error {
	f := follower{conn: c, stream: stream, filter: filter, latest: true, untilEnd: true, batch: bodyPull, maxBytes: bodyPullBytes}
	if err := f.each(ctx, fn); !errors.Is(err, errEnd) {
		return err
	}
	return nil
}

func (f *follower) each(ctx context.Context, fn func(*Msg) error) error {
	f.maxBytes = max(f.maxBytes, 4*int(f.conn.MaxPayload()))
	return f.run(ctx, func(in []arrival) error {
		for i := range in {
			a := &in[i]
			m := &Msg{Seq: a.seq, Time: a.time, Subject: a.msg.Subject, Header: a.msg.Header, Data: a.msg.Data, Skipped: a.skipped, Pending: a.pending}
			a.msg = nil // the slice does not hold on to bodies that were handed over
			if err := fn(m); err != nil {
				return err
			}
		}
		return nil
	})
}

// FollowBundles follows ROLLOUTS with bodies. Bundles that travelled in parts
// come whole, with their last part's message; early parts do not come by
// themselves. A message that is no bundle comes with its error (ErrMalformed, or
// ErrNotFound for a missing part) and a nil Bundle.
func FollowBundles(ctx context.Context, c *Conn, run subjects.Run, from uint64, fn func(*Msg, *Bundle, error) error) error {
	stream := run.StreamName(subjects.Rollouts)
	f := NewFetcher(c, stream, FetchConfig{})
	return Follow(ctx, c, stream, "", from, func(m *Msg) error {
		if IsPart(m.Header) {
			return nil
		}
		data, err := f.join(ctx, m.Seq, m.Header, m.Data)
		if err != nil {
			if errors.Is(err, ErrMalformed) || errors.Is(err, ErrNotFound) {
				return fn(m, nil, err)
			}
			return err
		}
		b, err := OpenBundle(m.Seq, m.Header, data)
		if err == nil {
			b.Time = m.Time
		}
		return fn(m, b, err)
	})
}
