// Package natstest gives tests a real JetStream server, never a mock: in
// process for testing/synctest, or on loopback TCP. Everything is cleaned up
// with the test.
package natstest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/headrace/headrace/internal/bus"
)

// The server's access clock is one goroutine for the process, which waits on a
// channel from outside any synctest bubble. Started inside one it would keep the
// bubble's time from advancing, so it is started before the tests.
func init() { ats.Register() }

// InProcess starts a server that does not listen, with its store in a
// temporary folder. Inside a synctest bubble its clock is the bubble's; there do
// not call the client library's Flush, FlushTimeout, Request, NextMsg or Drain:
// they share timers with what runs outside (FlushWithContext and
// RequestWithContext do not).
func InProcess(t testing.TB) *bus.Server { return start(t, bus.ServerOptions{Port: -1, Sync: "10m"}) }

// Loopback starts a server on a free port of 127.0.0.1.
func Loopback(t testing.TB) *bus.Server { return start(t, bus.ServerOptions{Sync: "10m"}) }

// Start starts a server with options of the test's choice; an empty StoreDir
// becomes a temporary folder.
func Start(t testing.TB, o bus.ServerOptions) *bus.Server { return start(t, o) }

func start(t testing.TB, o bus.ServerOptions) *bus.Server {
	t.Helper()
	if o.StoreDir == "" {
		o.StoreDir = t.TempDir()
	}
	s, err := bus.StartServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// Connect connects to the server until the test ends.
func Connect(t testing.TB, s *bus.Server) *bus.Conn {
	t.Helper()
	return connect(t, s.Options())
}

func connect(t testing.TB, o bus.Options) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
