package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	pullExpiry    = 30 * time.Second
	pullHeartbeat = 2 * time.Second
	silence       = 2*pullHeartbeat + 2*time.Second // without a sign of the server the consumer is made again
	inactive      = time.Minute                     // the server removes a consumer nobody pulls from
	followTries   = 10                              // sessions in a row that may fail before the error is believed
)

// follower reads a stream in order from its own offset. It lives through any
// number of sessions, each with a consumer of its own; nothing but the offset
// goes from one to the next.
type follower struct {
	conn           *Conn
	stream, filter string
	next           uint64 // first sequence not handed over
	latest         bool   // begin with the last message of each subject
	untilEnd       bool   // end once all that was there is handed over
	atEnd          bool   // nothing was there when the consumer was made
	headersOnly    bool
	batch          int // messages of one pull
	maxBytes       int // bytes of one pull
	chunk          int // bytes handed over at once, or a little more; 0: all there is
	tries          int // sessions since something was handed over
}

// arrival is a message as it came.
type arrival struct {
	msg     *nats.Msg
	seq     uint64
	time    time.Time
	skipped uint64
	pending uint64
}

// errEnd is the end of a follower that is to reach it.
var errEnd = errors.New("end of stream")

// fatal ends a follower: an error of fn, or the end.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// run hands everything to fn, in order.
func (f *follower) run(ctx context.Context, fn func([]arrival) error) error {
	f.next = max(f.next, 1)
	for {
		err := f.session(ctx, fn)
		var end fatal
		switch {
		case errors.As(err, &end):
			return end.error
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrPermission), errors.Is(err, ErrIncompatible), errors.Is(err, ErrClosed):
			return err
		}
		if f.tries++; f.tries > followTries && f.conn.isUp() {
			return err
		}
		f.conn.log.Debug().Err(err).Str("stream", f.stream).Uint64("next", f.next).Msg("follow again")
		if f.tries > 1 {
			if err := pause(ctx, backoff(f.tries-1, retryMin, retryMax)); err != nil {
				return err
			}
		}
		if err := f.conn.awaitUp(ctx); err != nil {
			return err
		}
	}
}

// session makes a consumer and reads from it until something breaks, or asks
// for messages where it may make none.
func (f *follower) session(ctx context.Context, fn func([]arrival) error) error {
	if f.conn.Identity().api != "" {
		return f.poll(ctx, fn)
	}
	lost := f.conn.lost()
	name := "follow-" + rand.Text()[:10]
	if err := f.consumer(ctx, name); err != nil {
		return err
	}
	if f.untilEnd && f.atEnd {
		return fatal{errEnd}
	}
	s := session{follower: f, subject: "CONSUMER.MSG.NEXT." + f.stream + "." + name, in: make(chan *nats.Msg, 4*f.batch+256)}
	sub, err := f.conn.nc.ChanSubscribe(f.conn.nc.NewInbox(), s.in)
	if err != nil {
		return classify("follow", f.stream, err)
	}
	defer func() {
		_ = sub.Unsubscribe()
		_ = f.conn.nc.Publish(f.conn.api+"CONSUMER.DELETE."+f.stream+"."+name, nil) // else it goes when inactive
	}()
	s.inbox = sub.Subject
	watched, done := f.conn.watchDenied(ctx, func(subject string) bool { return subject == f.conn.api+s.subject })
	defer done()
	return denialOf(watched, s.read(watched, lost, fn))
}

// consumer makes this session's consumer, at the offset.
func (f *follower) consumer(ctx context.Context, name string) error {
	cfg := jetstream.ConsumerConfig{
		Name: name, FilterSubject: f.filter, HeadersOnly: f.headersOnly,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.next,
		AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 1, // the offset is ours
		MemoryStorage: true, Replicas: 1, InactiveThreshold: inactive,
	}
	if f.latest && f.next == 1 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverLastPerSubjectPolicy, 0
		cfg.FilterSubject = first(cfg.FilterSubject, ">")
	}
	return guarded(ctx, f.conn, "follow", f.stream, func(ctx context.Context) error {
		st, err := f.conn.js.Stream(ctx, f.stream)
		if err != nil {
			return err
		}
		if err := f.notBehind(st.CachedInfo().State.LastSeq); err != nil {
			return err
		}
		made, err := st.CreateConsumer(ctx, cfg)
		f.atEnd = err == nil && made.CachedInfo().NumPending == 0
		return err
	})
}

// notBehind refuses a stream that ends before what was read of it.
func (f *follower) notBehind(last uint64) error {
	if last+1 >= f.next {
		return nil
	}
	return &APIError{Op: "follow", Subject: f.stream, Kind: ErrIncompatible, Description: fmt.Sprintf(
		"the stream ends at %d, what was read before reached %d: it was restored from an older copy or lost its end", last, f.next-1)}
}

// session reads from one consumer.
type session struct {
	*follower
	subject string // the subject, within the API, that asks for messages
	inbox   string
	in      chan *nats.Msg
	asked   int    // messages asked for and not received
	bytes   int    // the same in bytes
	counted uint64 // deliveries of this consumer
	got     []arrival
	size    int // bytes of got
}

func (s *session) read(ctx context.Context, lost <-chan struct{}, fn func([]arrival) error) error {
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for {
		if err := s.pull(); err != nil {
			return err
		}
		timer.Reset(silence)
		select {
		case m := <-s.in:
			if err := s.hand(m, fn); err != nil {
				return err
			}
		case <-timer.C:
			return classify("follow", s.stream, nats.ErrTimeout)
		case <-lost:
			return classify("follow", s.stream, nats.ErrDisconnected)
		case <-s.conn.closed:
			return classify("follow", s.stream, nats.ErrConnectionClosed)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pull asks for more when at most half is on its way. Each pull has the full
// byte limit, since one below a message's size gets nothing, for ever.
func (s *session) pull() error {
	if s.asked > s.batch/2 && s.bytes > s.maxBytes/2 {
		return nil
	}
	body := fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d,"idle_heartbeat":%d}`, s.batch, s.maxBytes, pullExpiry, pullHeartbeat)
	s.asked += s.batch
	s.bytes += s.maxBytes
	return classify("follow", s.stream, s.conn.nc.PublishRequest(s.conn.api+s.subject, s.inbox, body))
}

// hand takes m and whatever else is there, and gives it to fn. What was whole
// before a break is handed over before the break is reported.
func (s *session) hand(m *nats.Msg, fn func([]arrival) error) error {
	s.got, s.size = s.got[:0], 0
	broken := s.take(m)
	for n := len(s.in); n > 0 && broken == nil && len(s.got) < s.batch && (s.chunk == 0 || s.size < s.chunk); n-- {
		broken = s.take(<-s.in)
	}
	if len(s.got) > 0 {
		end := s.got[len(s.got)-1].seq + 1
		if err := fn(s.got); err != nil {
			return fatal{err}
		}
		s.next, s.tries = end, 0
		if s.untilEnd && s.got[len(s.got)-1].pending == 0 {
			return fatal{errEnd}
		}
	}
	return broken
}

// take sorts out one message: a delivery or a status.
func (s *session) take(m *nats.Msg) error {
	if len(m.Data) == 0 && m.Reply == "" {
		if code := status(m); code != "" {
			return s.status(code, m.Header)
		}
	}
	meta, err := m.Metadata()
	if err != nil {
		return nil // not from the consumer
	}
	s.counted++
	if meta.Sequence.Consumer != s.counted {
		return fmt.Errorf("follow %s: delivery %d came, %d was due", s.stream, meta.Sequence.Consumer, s.counted)
	}
	s.asked, s.bytes = max(s.asked-1, 0), max(s.bytes-m.Size(), 0)
	a := arrival{msg: m, seq: meta.Sequence.Stream, time: meta.Timestamp, pending: meta.NumPending}
	due := s.next
	if n := len(s.got); n > 0 {
		due = s.got[n-1].seq + 1
	}
	if a.seq < due {
		return fmt.Errorf("follow %s: sequence %d came, %d was due", s.stream, a.seq, due)
	}
	if s.filter == "" && !s.latest {
		a.skipped = a.seq - due
	}
	s.got, s.size = append(s.got, a), s.size+m.Size()
	return nil
}

// status handles the end of a pull; an error is the end of the session.
func (s *session) status(code string, h nats.Header) error {
	text := h.Get("Description")
	switch {
	case code == "100":
		return nil
	case code == "408", code == "404", code == "409" && (text == "Message Size Exceeds MaxBytes" || text == "Batch Completed"):
		return s.ended(text, h)
	case code == "503":
		return classify("follow", s.stream, nats.ErrNoResponders)
	}
	return &APIError{Op: "follow", Subject: s.stream, Kind: ErrNotFound, Description: code + " " + text}
}

// ended takes what a pull did not deliver off the account. A pull that ends
// over its size without any other under way asked for too little.
func (s *session) ended(text string, h nats.Header) error {
	n, _ := strconv.Atoi(h.Get("Nats-Pending-Messages"))
	b, _ := strconv.Atoi(h.Get("Nats-Pending-Bytes"))
	if text == "Message Size Exceeds MaxBytes" && b == s.maxBytes {
		s.maxBytes *= 2
	}
	s.asked, s.bytes = max(s.asked-n, 0), max(s.bytes-b, 0)
	return nil
}
