package feed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Client is the trainer's side of a feed in Go: what replay and the tests use,
// and the shortest description of a client. It asks one thing at a time and is
// for one goroutine.
type Client struct {
	// Welcome is what the bridge said.
	Welcome Welcome
	// OnNotice, when set, gets the bridge's notices.
	OnNotice func(Notice)

	conn  net.Conn
	in    *bufio.Reader
	ring  []byte
	limit Limits
	asked int64
}

// ErrRefused is wrapped by every error that the bridge answered with.
var ErrRefused = errors.New("bridge refused")

// EndError says that there is no further batch.
type EndError struct{ End }

func (e *EndError) Error() string {
	return fmt.Sprintf("feed ended after step %d: %s", e.Steps, e.Reason)
}

// Dial opens a feed. Where hello names no transport it is [MemFD] on a Unix
// socket and [Stream] elsewhere; no world means one host.
func Dial(ctx context.Context, address string, hello Hello) (*Client, error) {
	network, where, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, where)
	if err != nil {
		return nil, fmt.Errorf("reach bridge at %s: %w", address, err)
	}
	hello.V, hello.World = Version, max(hello.World, 1)
	if hello.Transport == "" {
		hello.Transport = map[string]Transport{"unix": MemFD}[network]
	}
	if hello.Transport == "" {
		hello.Transport = Stream
	}
	c := &Client{conn: conn, limit: Limits{JSON: MaxJSON}}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	if err := c.greet(hello); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("open feed at %s: %w", address, err)
	}
	return c, nil
}

func (c *Client) greet(hello Hello) error {
	if err := c.send(TypeHello, hello); err != nil {
		return err
	}
	f, err := c.receiveWelcome()
	if err != nil {
		return err
	}
	if f.Type == TypeError {
		return refusal(f)
	}
	if f.Type != TypeWelcome {
		return protocolErrorf("answer to HELLO is %s", f.Type)
	}
	if err := f.Decode(&c.Welcome); err != nil {
		return err
	}
	if c.Welcome.Transport == MemFD && c.ring == nil {
		return protocolErrorf("WELCOME carries no descriptor")
	}
	if c.Welcome.Transport == Stream {
		c.limit.Data = c.Welcome.SlotBytes
	}
	c.in = bufio.NewReaderSize(c.conn, 64<<10)
	return nil
}

// receiveWelcome reads the answer to HELLO and maps the ring that comes with it.
func (c *Client) receiveWelcome() (Frame, error) {
	local, ok := c.conn.(*net.UnixConn)
	if !ok {
		return Read(c.conn, c.limit)
	}
	f, file, err := readWithFile(local, c.limit)
	if err != nil || file == nil {
		return f, err
	}
	defer file.Close()
	var w Welcome
	if err := f.Decode(&w); err != nil {
		return f, err
	}
	c.ring, err = unix.Mmap(int(file.Fd()), 0, w.Slots*w.SlotBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return f, fmt.Errorf("map ring: %w", err)
	}
	return f, nil
}

// Next waits for the next batch. The memory is valid until its slot is
// released; with [Stream] it is the caller's. The error is an [*EndError] when
// there is no further one.
func (c *Client) Next() (*Batch, []byte, error) {
	f, err := c.ask(TypeNext, func(id int64) any { return Request{ID: id} })
	if err != nil {
		return nil, nil, err
	}
	switch f.Type {
	case TypeEnd:
		var e End
		if err := f.Decode(&e); err != nil {
			return nil, nil, err
		}
		return nil, nil, &EndError{e}
	case TypeBatch:
		return c.batch(f)
	}
	return nil, nil, protocolErrorf("answer to NEXT is %s", f.Type)
}

func (c *Client) batch(f Frame) (*Batch, []byte, error) {
	var b Batch
	if err := f.Decode(&b); err != nil {
		return nil, nil, err
	}
	if b.Slot < 0 {
		return &b, f.Data, nil
	}
	if b.Offset < 0 || b.Bytes < 0 || b.Offset+b.Bytes > len(c.ring) {
		return nil, nil, protocolErrorf("slot %d lies outside the ring", b.Slot)
	}
	return &b, c.ring[b.Offset : b.Offset+b.Bytes], nil
}

// Release gives the batch's slot back.
func (c *Client) Release(b *Batch) error {
	if b.Slot < 0 {
		return nil
	}
	return c.send(TypeRelease, Release{Slot: b.Slot, Step: b.Step})
}

// Commit reports an optimizer step and returns once that is durable.
func (c *Client) Commit(m Commit) error {
	return c.report(TypeCommit, func(id int64) any { m.ID = id; return m })
}

// Checkpointed reports a checkpoint and returns once that is durable.
func (c *Client) Checkpointed(m Checkpointed) error {
	return c.report(TypeCheckpointed, func(id int64) any { m.ID = id; return m })
}

// Weights announces a policy version and returns once that is durable.
func (c *Client) Weights(m Weights) error {
	return c.report(TypeWeights, func(id int64) any { m.ID = id; return m })
}

// WaitWeights waits for engines to serve a version.
func (c *Client) WaitWeights(m WaitWeights) (OK, error) {
	var ok OK
	f, err := c.ask(TypeWaitWeights, func(id int64) any { m.ID = id; return m })
	if err == nil {
		err = f.Decode(&ok)
	}
	return ok, err
}

// Spans says what the trainer did. The answer has the bridge's clock.
func (c *Client) Spans(m Spans) (OK, error) {
	var ok OK
	f, err := c.ask(TypeSpans, func(id int64) any { m.ID = id; return m })
	if err == nil {
		err = f.Decode(&ok)
	}
	return ok, err
}

// Notice sends a remark.
func (c *Client) Notice(n Notice) error { return c.send(TypeNotice, n) }

// Close says BYE and closes. Memory of batches is no longer valid.
func (c *Client) Close(reason string) error {
	return errors.Join(c.send(TypeBye, Bye{Reason: reason}), c.Abort())
}

// Abort closes without a word, as a killed trainer would.
func (c *Client) Abort() error {
	err := c.conn.Close()
	if c.ring != nil {
		err = errors.Join(err, unix.Munmap(c.ring))
		c.ring = nil
	}
	return err
}

func (c *Client) report(t Type, body func(id int64) any) error {
	f, err := c.ask(t, body)
	if err == nil && f.Type != TypeOK {
		err = protocolErrorf("answer to %s is %s", t, f.Type)
	}
	return err
}

// ask sends a request and waits for its answer.
func (c *Client) ask(t Type, body func(id int64) any) (Frame, error) {
	c.asked++
	if err := c.send(t, body(c.asked)); err != nil {
		return Frame{}, err
	}
	for {
		f, err := Read(c.in, c.limit)
		if err != nil {
			return f, fmt.Errorf("await answer to %s: %w", t, noEOF(0, err))
		}
		if f.Type == TypeNotice {
			if err := c.notice(f); err != nil {
				return f, err
			}
			continue
		}
		var r Request
		if err := f.Decode(&r); err != nil {
			return f, err
		}
		if f.Type == TypeError {
			return f, refusal(f)
		}
		if r.ID != c.asked {
			return f, protocolErrorf("%s answers %d, not %d", f.Type, r.ID, c.asked)
		}
		return f, nil
	}
}

func (c *Client) notice(f Frame) error {
	var n Notice
	if err := f.Decode(&n); err != nil {
		return err
	}
	if c.OnNotice != nil {
		c.OnNotice(n)
	}
	return nil
}

func refusal(f Frame) error {
	var r Refusal
	if err := f.Decode(&r); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", ErrRefused, r.Message)
}

func (c *Client) send(t Type, body any) error {
	frame, err := Append(nil, t, body, 0)
	if err != nil {
		return err
	}
	if _, err = c.conn.Write(frame); err != nil {
		return fmt.Errorf("send %s: %w", t, err)
	}
	return nil
}

// Conn is the connection, for tests that break the protocol.
func (c *Client) Conn() io.Writer { return c.conn }
