package natstest

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/auth"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Secure is a server as `headrace auth init` configures it: TLS, accounts, and
// a credential for every role.
type Secure struct {
	Dir    string // that auth init made
	Log    zerolog.Logger
	server *server.Server
	store  string
	port   int
}

// NewSecure makes the keys of a run, with two producers, and starts the server
// on a free port of 127.0.0.1 with the configuration that was written.
func NewSecure(t testing.TB, run subjects.Run) *Secure {
	t.Helper()
	s := &Secure{Dir: filepath.Join(t.TempDir(), "auth"), store: t.TempDir(), Log: zerolog.Nop()}
	if _, err := auth.Init(auth.Options{Dir: s.Dir, Run: run, Producers: 2, Store: s.store}); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

func (s *Secure) start(t testing.TB) {
	t.Helper()
	ns, err := server.NewServer(s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	s.server = ns
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("server is not ready")
	}
}

func (s *Secure) stop() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}

// Restart stops the server and starts it again on its store and address.
func (s *Secure) Restart(t testing.TB) {
	t.Helper()
	s.options(t) // fails before the server is gone
	s.stop()
	s.start(t)
}

// options are the written configuration; only ports are the test's.
func (s *Secure) options(t testing.TB) *server.Options {
	t.Helper()
	o, err := server.ProcessConfigFile(filepath.Join(s.Dir, "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.HTTPHost, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT, "", 0
	o.NoSigs, o.SyncAlways, o.NoLog = true, false, true
	if s.port == 0 && s.server != nil {
		s.port = s.server.Addr().(*net.TCPAddr).Port
	}
	if s.port != 0 {
		o.Port = s.port
	}
	return o
}

// URL is the server's address.
func (s *Secure) URL() string { return s.server.ClientURL() }

// File is the credentials file of that name, as in admin or producers/p01.
func (s *Secure) File(name string) string { return filepath.Join(s.Dir, "creds", name+".creds") }

// Options connect with the credentials of that name.
func (s *Secure) Options(name string) bus.Options {
	return bus.Options{URL: s.URL(), Creds: s.File(name), Log: s.Log}
}

// Connect connects with the credentials of that name until the test ends.
func (s *Secure) Connect(t testing.TB, name string) *bus.Conn {
	t.Helper()
	return connect(t, s.Options(name))
}

// Reload makes the server read its configuration again, as a signal would.
func (s *Secure) Reload(t testing.TB) {
	t.Helper()
	if err := s.server.ReloadOptions(s.options(t)); err != nil {
		t.Fatal(err)
	}
}
