package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

const (
	dialTimeout   = 5 * time.Second
	answerTimeout = 15 * time.Second // a synced write on a loaded disk takes seconds
	closeTimeout  = 5 * time.Second
	writeBuffer   = 256 << 10 // one bundle, one write
)

// Conn is one connection to the bus. It is safe for concurrent use and
// reconnects for ever.
type Conn struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	api    string // prefix of the JetStream API's subjects, with the final dot
	log    zerolog.Logger
	calls  calls
	cred   *credential // nil without a file
	taken  bool        // cred goes with the connection
	mute   bool        // of gauges and spans
	closed chan struct{}

	mu     sync.Mutex
	up     chan struct{} // closed while connected
	down   chan struct{} // closed when the present connection breaks
	back   time.Time     // when it last came back; zero: it never broke
	guard  map[*guard]struct{}
	denied map[string]bool // subjects whose denial was logged
}

// Connect connects once and reports why that does not work: ErrUnreachable,
// ErrPermission, ErrNotFound (of a named context). Afterwards the connection
// survives the server.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	c := &Conn{log: o.Log, mute: o.Mute, closed: make(chan struct{}), up: make(chan struct{}), down: make(chan struct{}), guard: map[*guard]struct{}{}, denied: map[string]bool{}}
	if err := c.dial(ctx, o); err != nil {
		return nil, err
	}
	if err := c.calls.listen(c.nc); err != nil {
		c.nc.Close()
		return nil, classify("subscribe", c.calls.inbox, err)
	}
	return c, nil
}

// dial connects in a goroutine of its own, since the client library knows no
// context there; it is over within dialTimeout a server.
func (c *Conn) dial(ctx context.Context, o Options) error {
	done := make(chan error, 1)
	go func() { done <- c.connect(o) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if err := <-done; err == nil {
			c.nc.Close()
		}
		return ctx.Err()
	}
}

func (c *Conn) connect(o Options) error {
	d, err := o.dial(c.options())
	if err != nil {
		return err
	}
	c.nc, c.api, c.cred, c.taken = d.nc, d.api, d.cred, d.taken
	c.connected(c.nc)
	c.js, err = jetstream.NewWithAPIPrefix(c.nc, strings.TrimSuffix(c.api, "."), jetstream.WithDefaultTimeout(answerTimeout))
	return err
}

// options are those that every connection has; the target's come first.
func (c *Conn) options() []nats.Option {
	return []nats.Option{
		nats.Timeout(dialTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectMin),
		nats.CustomReconnectDelay(func(attempts int) time.Duration {
			return backoff(attempts, reconnectMin, reconnectMax)
		}),
		nats.ReconnectBufSize(-1),          // what cannot be sent now fails now; retries are ours, with an id
		nats.PingInterval(5 * time.Second), // a connection that died without a word is noticed within 20 s,
		nats.MaxPingsOutstanding(3),        // and one that is busy with the largest pulls is not mistaken for it
		nats.WriteBufferSize(writeBuffer),
		nats.PermissionErrOnSubscribe(true),
		nats.IgnoreAuthErrorAbort(), // credentials may rotate under a live connection
		nats.DisconnectErrHandler(c.disconnected),
		nats.ReconnectHandler(c.reconnected),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.ErrorHandler(c.asyncError),
	}
}

const (
	reconnectMin = 250 * time.Millisecond
	reconnectMax = time.Second // a server that is back is found at once
)

func (c *Conn) connected(nc *nats.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.up:
	default:
		close(c.up)
		c.down = make(chan struct{})
	}
	c.log.Debug().Str("server", nc.ConnectedServerName()).Msg("bus connected")
}

func (c *Conn) reconnected(nc *nats.Conn) {
	c.connected(nc)
	c.mu.Lock()
	c.back = time.Now()
	c.mu.Unlock()
	c.log.Info().Str("server", nc.ConnectedServerName()).Msg("bus connection is back")
}

// cameBack reports whether the connection broke and came back within the last d.
func (c *Conn) cameBack(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.back.IsZero() && time.Since(c.back) < d
}

func (c *Conn) disconnected(_ *nats.Conn, err error) {
	c.mu.Lock()
	select {
	case <-c.up:
		c.up = make(chan struct{})
		close(c.down)
	default:
	}
	c.mu.Unlock()
	if err != nil {
		c.log.Warn().Err(err).Msg("bus connection lost, reconnecting")
	}
	c.calls.failAll(nats.ErrDisconnected)
	c.breakCalls()
}

// awaitUp waits for a connection.
func (c *Conn) awaitUp(ctx context.Context) error {
	c.mu.Lock()
	up := c.up
	c.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-c.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isUp reports whether there is a connection now.
func (c *Conn) isUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.up:
		return true
	default:
		return false
	}
}

// lost is closed when the present connection breaks.
func (c *Conn) lost() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// Identity is what the credentials say of this connection's holder; empty
// without a credentials file.
func (c *Conn) Identity() Identity {
	if c.cred == nil {
		return Identity{}
	}
	return c.cred.Identity
}

// NC is the NATS connection, for core messages.
func (c *Conn) NC() *nats.Conn { return c.nc }

// JS is the JetStream context, for what this package does not offer.
func (c *Conn) JS() jetstream.JetStream { return c.js }

// MaxPayload is the largest message the server takes, headers included, in bytes.
func (c *Conn) MaxPayload() int64 { return c.nc.MaxPayload() }

// Close sends what was published and closes the connection, within five
// seconds. Close publishers, followers and leases first.
func (c *Conn) Close() error {
	err := c.flush()
	c.nc.Close()
	<-c.closed
	if c.taken {
		c.cred.release()
	}
	return classify("close", "connection", err)
}

// flush waits until the server has what was published, unless the connection
// breaks. It is no Drain, which polls: there is nothing to wait for but the
// write buffer.
func (c *Conn) flush() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	lost := c.lost()
	if !c.isUp() {
		return nil
	}
	flushed := make(chan error, 1)
	go func() { flushed <- c.nc.FlushWithContext(ctx) }()
	select {
	case err := <-flushed:
		if errors.Is(err, nats.ErrConnectionClosed) {
			return nil
		}
		return err
	case <-lost:
		cancel()
		<-flushed
		return nil
	}
}
