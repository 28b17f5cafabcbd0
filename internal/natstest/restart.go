package natstest

import (
	"testing"

	"github.com/headrace/headrace/internal/bus"
)

// Restartable is a server on loopback TCP that can be stopped and started again
// on the same store, address and credentials; its clients reconnect.
type Restartable struct {
	server *bus.Server
	opts   bus.ServerOptions
}

// NewRestartable starts the server; every write is synced.
func NewRestartable(t testing.TB) *Restartable {
	t.Helper()
	r := &Restartable{opts: bus.ServerOptions{StoreDir: t.TempDir()}}
	r.Start(t)
	t.Cleanup(func() { r.server.Shutdown() })
	return r
}

// Connect connects over TCP until the test ends.
func (r *Restartable) Connect(t testing.TB) *bus.Conn {
	t.Helper()
	return connect(t, r.server.RemoteOptions())
}

// Restart stops the server and starts it again.
func (r *Restartable) Restart(t testing.TB) {
	t.Helper()
	r.Stop()
	r.Start(t)
}

// Stop stops the server; its clients try to reconnect.
func (r *Restartable) Stop() { r.server.Shutdown() }

// Start starts a stopped server.
func (r *Restartable) Start(t testing.TB) {
	t.Helper()
	s, err := bus.StartServer(t.Context(), r.opts)
	if err != nil {
		t.Fatal(err)
	}
	r.server = s
}
