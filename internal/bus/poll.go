package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Roles that have an account of their own may not make consumers: whoever
// makes one also says where it delivers, and that may be anywhere. They read by
// asking, which is answered to them alone, and ask again after a while.
const (
	pollEvery = 250 * time.Millisecond
	pollBatch = 256 // messages of one answer
)

// getBatch asks for messages from a sequence on, or for the last of each subject.
type getBatch struct {
	Seq       uint64   `json:"seq,omitempty"`
	NextFor   string   `json:"next_by_subj,omitempty"`
	Batch     int      `json:"batch,omitempty"`
	MaxBytes  int      `json:"max_bytes,omitempty"`
	MultiLast []string `json:"multi_last,omitempty"`
}

// poll follows a stream without a consumer, until the connection breaks.
func (f *follower) poll(ctx context.Context, fn func([]arrival) error) error {
	if err := f.look(ctx); err != nil {
		return err
	}
	p := poller{follower: f, in: make(chan *nats.Msg, 4*pollBatch)}
	sub, err := f.conn.nc.ChanSubscribe(f.conn.nc.NewInbox(), p.in)
	if err != nil {
		return classify("follow", f.stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	p.inbox = sub.Subject
	subject, body, err := p.question()
	if err != nil {
		return err
	}
	ctx, done := f.conn.watchDenied(ctx, func(s string) bool { return s == subject })
	defer done()
	for {
		got, err := p.ask(ctx, subject, body)
		if err == nil {
			err = p.hand(got, fn)
		}
		if err == nil && (len(got) == 0 || f.latest) {
			err = pause(ctx, pollEvery)
		}
		if err != nil {
			return denialOf(ctx, err)
		}
		if subject, body, err = p.question(); err != nil {
			return err
		}
	}
}

// look is the same look at the stream that a consumer begins with.
func (f *follower) look(ctx context.Context) error {
	return guarded(ctx, f.conn, "follow", f.stream, func(ctx context.Context) error {
		st, err := f.conn.js.Stream(ctx, f.stream)
		if err != nil {
			return err
		}
		return f.notBehind(st.CachedInfo().State.LastSeq)
	})
}

// poller is the questions of one follower.
type poller struct {
	*follower
	in    chan *nats.Msg
	inbox string
}

// question is what to ask next.
func (p *poller) question() (subject string, body []byte, err error) {
	subject = p.conn.api + "DIRECT.GET." + p.stream
	switch {
	case p.latest && p.filter != "" && !strings.ContainsAny(p.filter, "*>"):
		return subject + "." + p.filter, nil, nil
	case p.latest:
		body, err = json.Marshal(getBatch{MultiLast: []string{first(p.filter, ">")}})
	default:
		body, err = json.Marshal(getBatch{Seq: p.next, NextFor: first(p.filter, ">"), Batch: min(p.batch, pollBatch), MaxBytes: p.maxBytes})
	}
	return subject, body, err
}

// ask returns what the answer brings, in order and without what was handed over.
func (p *poller) ask(ctx context.Context, subject string, body []byte) (got []arrival, err error) {
	lost := p.conn.lost()
	if err := p.conn.nc.PublishRequest(subject, p.inbox, body); err != nil {
		return nil, classify("follow", p.stream, err)
	}
	timer := time.NewTimer(answerTimeout)
	defer timer.Stop()
	for {
		select {
		case m := <-p.in:
			more, err := p.take(m, &got)
			if err != nil {
				return nil, err
			}
			if !more || len(body) == 0 { // a single message has no end mark
				slices.SortFunc(got, func(a, b arrival) int { return int(a.seq) - int(b.seq) })
				return got, nil
			}
			timer.Reset(answerTimeout)
		case <-timer.C:
			return nil, classify("follow", p.stream, nats.ErrTimeout)
		case <-lost:
			return nil, classify("follow", p.stream, nats.ErrDisconnected)
		case <-p.conn.closed:
			return nil, classify("follow", p.stream, nats.ErrConnectionClosed)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take sorts out one message of an answer; false is the end of it.
func (p *poller) take(m *nats.Msg, got *[]arrival) (more bool, err error) {
	switch code := status(m); code {
	case "":
	case "204", "404":
		return false, nil
	case "503":
		return false, classify("follow", p.stream, nats.ErrNoResponders)
	default:
		return false, &APIError{Op: "follow", Subject: p.stream, Description: code + " " + m.Header.Get("Description")}
	}
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return false, fmt.Errorf("follow %s: an answer without a sequence", p.stream)
	}
	if seq < p.next {
		return true, nil
	}
	a := arrival{msg: m, seq: seq}
	a.time, _ = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer))
	a.pending, _ = strconv.ParseUint(m.Header.Get("Nats-Num-Pending"), 10, 64)
	m.Subject = m.Header.Get(jetstream.SubjectHeader)
	if p.headersOnly {
		m.Header["Nats-Msg-Size"] = []string{strconv.Itoa(len(m.Data))}
		m.Data = nil
	}
	*got = append(*got, a)
	return true, nil
}

// hand gives what came to fn.
func (p *poller) hand(got []arrival, fn func([]arrival) error) error {
	due := p.next
	for i := range got {
		if p.filter == "" && !p.latest {
			got[i].skipped = got[i].seq - due
		}
		due = got[i].seq + 1
	}
	end := p.latest || len(got) == 0 || got[len(got)-1].pending == 0
	if len(got) > 0 {
		if err := fn(got); err != nil {
			return fatal{err}
		}
		p.next, p.tries = due, 0
	}
	if p.untilEnd && end {
		return fatal{errEnd}
	}
	return nil
}
