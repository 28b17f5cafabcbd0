package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// Options say which bus to connect to. What is not set comes from the
// environment (NATS_URL, NATS_CREDS, NATS_NKEY, NATS_USER, NATS_PASSWORD,
// NATS_TOKEN, NATS_CERT, NATS_KEY, NATS_CA, NATS_CONTEXT), then from the selected
// nats context, then is nats://127.0.0.1:4222, as with the nats CLI.
type Options struct {
	// URL of the server, or several separated by commas.
	URL string
	// Creds is the path of a credentials file.
	Creds string
	// Context names a context of the nats CLI.
	Context string
	// CredentialsFile is the path of a file an embedded server wrote; it gives
	// URL, User and Password where they are not set.
	CredentialsFile string
	// Name of the connection as the server's operator sees it.
	Name string
	// InboxPrefix replaces _INBOX where permissions ask for it.
	InboxPrefix string
	// InProcess connects to a server in this process, without a socket.
	InProcess nats.InProcessConnProvider
	// User and Password; never logged.
	User, Password string
	Log            zerolog.Logger
}

// Conn is one connection to the bus. It is safe for concurrent use and
// reconnects for ever.
type Conn struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// Connect connects once and reports why that does not work: ErrUnreachable,
// ErrPermission. Afterwards the connection survives the server.
func Connect(ctx context.Context, o Options) (*Conn, error) { return nil, errors.ErrUnsupported }

// NC is the NATS connection, for core messages.
func (c *Conn) NC() *nats.Conn { return c.nc }

// JS is the JetStream context, for what this package does not offer.
func (c *Conn) JS() jetstream.JetStream { return c.js }

// MaxPayload is the largest message the server takes, headers included, in bytes.
func (c *Conn) MaxPayload() int64 { return c.nc.MaxPayload() }

// Close drains the connection, within five seconds.
func (c *Conn) Close() error { return nil }
