package bus

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// reply is the answer to one call: a message, or why there is none.
type reply struct {
	tag uint64 // the caller's
	msg *nats.Msg
	err error
}

// call waits for one answer. Its channel has room for it.
type call struct {
	subject string
	tag     uint64
	ch      chan<- reply
}

// calls matches answers to requests over one inbox. Every started call gets
// exactly one reply: the answer, the end of the connection or a denied
// permission, unless it is forgotten first.
type calls struct {
	inbox string
	mu    sync.Mutex
	next  uint64
	open  map[uint64]call
	deny  error // the inbox itself is not permitted
}

func (c *calls) listen(nc *nats.Conn) error {
	c.inbox = nc.NewInbox() + "."
	c.open = map[uint64]call{}
	sub, err := nc.Subscribe(c.inbox+"*", c.answer)
	if err != nil {
		return err
	}
	return sub.SetPendingLimits(-1, -1) // bounded by who asks
}

// add registers a call and returns its id and reply subject.
func (c *calls) add(subject string, tag uint64, ch chan<- reply) (id uint64, replyTo string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deny != nil {
		return 0, "", c.deny
	}
	c.next++
	c.open[c.next] = call{subject, tag, ch}
	return c.next, c.inbox + strconv.FormatUint(c.next, 36), nil
}

// take forgets a call; its channel gets no reply from then on.
func (c *calls) take(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, id)
}

func (c *calls) answer(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[min(len(c.inbox), len(m.Subject)):], 36, 64)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.open[id]; ok { // sent under the lock: a call that was taken back gets nothing any more
		delete(c.open, id)
		w.ch <- reply{tag: w.tag, msg: m}
	}
}

// fail answers all open calls that match with an error, and counts them.
func (c *calls) fail(err error, match func(subject string) bool) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, w := range c.open {
		if match(w.subject) {
			delete(c.open, id)
			w.ch <- reply{tag: w.tag, err: err}
			n++
		}
	}
	return n
}

func (c *calls) failAll(err error) { c.fail(err, func(string) bool { return true }) }

// start sends a request; its reply comes on ch, which must have room for it.
func (c *Conn) start(subject string, hdr nats.Header, data []byte, tag uint64, ch chan<- reply) (id uint64, err error) {
	id, replyTo, err := c.calls.add(subject, tag, ch)
	if err != nil {
		return 0, err
	}
	err = c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: replyTo, Header: hdr, Data: data})
	if err != nil {
		c.calls.take(id)
	}
	return id, err
}

const (
	smallBody    = 64 << 10
	smallTimeout = 5 * time.Second // what is small is asked again sooner: its answer may be lost with a leader
)

// request sends a request and waits for its answer: answerTimeout, or
// smallTimeout for a small one, less if ctx ends before. A status of "no responders" is an ErrNoStream.
func (c *Conn) request(ctx context.Context, op, subject string, hdr nats.Header, data []byte) (*nats.Msg, error) {
	ch := make(chan reply, 1)
	id, err := c.start(subject, hdr, data, 0, ch)
	if err != nil {
		return nil, classify(op, subject, err)
	}
	limit := answerTimeout
	if len(data) <= smallBody {
		limit = smallTimeout
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case r := <-ch:
		return r.check(op, subject)
	case <-timer.C:
		err = nats.ErrTimeout
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.closed:
		err = nats.ErrConnectionClosed
	}
	c.calls.take(id)
	return nil, classify(op, subject, err)
}

func (r reply) check(op, subject string) (*nats.Msg, error) {
	if r.err != nil {
		return nil, classify(op, subject, r.err)
	}
	if len(r.msg.Data) == 0 && status(r.msg) == "503" {
		return nil, classify(op, subject, nats.ErrNoResponders)
	}
	return r.msg, nil
}

// status is the three-digit status of a message without a body, or "".
func status(m *nats.Msg) string {
	if v := m.Header["Status"]; len(v) > 0 {
		return v[0]
	}
	return ""
}
