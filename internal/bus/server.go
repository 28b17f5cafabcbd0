package bus

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// ServerOptions configure the embedded server.
type ServerOptions struct {
	// StoreDir is the folder of the store; nothing is written outside it,
	// CredentialsFile apart.
	StoreDir string
	// Host to listen on. Default 127.0.0.1; a loopback address is required.
	Host string
	// Port to listen on: 0 the store's last one if it is free, else any; -1 none
	// (in-process connections only).
	Port int
	// Sync says when writes reach the disk: "always" (default: before they are
	// acknowledged) or an interval such as "1s", which is what a power failure
	// can then cost.
	Sync string
	// MaxPayload is the largest message in bytes. Default 8 MiB.
	MaxPayload int32
	// MaxStore bounds the sum of what streams may hold, in bytes. Default 0: no bound.
	MaxStore int64
	// CredentialsFile, when set, gets URL, user and password as JSON, mode 0600,
	// so that another process of the same user can join. It is removed at shutdown.
	CredentialsFile string
	Log             zerolog.Logger
}

const (
	defaultMaxPayload = 8 << 20
	maxPending        = 256 << 20 // bytes to one slow client, well over max_payload
	maxBufferedSize   = 512 << 20 // ingest queue of a stream, shared by all its producers
	maxMemory         = 1 << 30   // for memory streams: the engine registry
	noStoreBound      = 1 << 50   // streams reserve their limits; the disk itself is watched instead
	minFree           = 64 << 20  // free bytes without which a store is not opened
	startTimeout      = time.Minute
)

// Server is a NATS server inside this process.
type Server struct {
	ns    *server.Server
	opts  ServerOptions
	creds credentials
	lock  *os.File
	log   *serverLog
	once  sync.Once
}

// StartServer starts a server and returns when it serves. Errors: ErrPortInUse,
// ErrStore, ErrStoreLocked, ErrDiskFull, each one line that says what to do.
func StartServer(ctx context.Context, o ServerOptions) (*Server, error) {
	o, sync, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	lock, err := openStore(o.StoreDir)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, lock: lock, log: &serverLog{log: o.Log, failed: make(chan struct{})}}
	if err := s.start(ctx, sync); err != nil {
		s.Shutdown()
		return nil, err
	}
	return s, nil
}

func (o ServerOptions) withDefaults() (ServerOptions, time.Duration, error) {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = defaultMaxPayload
	}
	if o.MaxStore == 0 {
		o.MaxStore = noStoreBound
	}
	ip := net.ParseIP(o.Host)
	if o.Host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return o, 0, fmt.Errorf("embedded server on %s: only a loopback address; run nats-server for other hosts", o.Host)
	}
	if o.Sync == "" || o.Sync == "always" {
		return o, 0, nil
	}
	d, err := time.ParseDuration(o.Sync)
	if err != nil || d <= 0 {
		return o, 0, fmt.Errorf(`sync %q: want "always" or an interval such as "1s"`, o.Sync)
	}
	return o, d, nil
}

// config is the server's configuration; sync 0 is always.
func (s *Server) config(sync time.Duration) *server.Options {
	port := s.opts.Port
	if port == 0 {
		port = s.lastPort()
	}
	return &server.Options{
		ServerName: "headrace",
		Host:       s.opts.Host, Port: port, DontListen: s.opts.Port < 0,
		Username: s.creds.User, Password: s.creds.Password,
		JetStream: true, StoreDir: s.opts.StoreDir,
		JetStreamMaxStore: s.opts.MaxStore, JetStreamMaxMemory: maxMemory,
		SyncAlways: sync == 0, SyncInterval: sync,
		MaxPayload: s.opts.MaxPayload, MaxPending: maxPending, StreamMaxBufferedSize: maxBufferedSize,
		WriteDeadline:   30 * time.Second, // a slow reader of 8 MiB messages is not dropped
		NoSigs:          true,             // signals are the program's business
		NoSystemAccount: true,
	}
}

func (s *Server) start(ctx context.Context, sync time.Duration) error {
	if err := s.recall(); err != nil {
		return err
	}
	ns, err := server.NewServer(s.config(sync))
	if err != nil {
		return fmt.Errorf("configure embedded server: %w", err)
	}
	s.ns = ns
	ns.SetLoggerV2(s.log, false, false, false)
	ns.Start()
	if fault := s.log.fault(); fault != "" {
		return s.startError(fault)
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	if s.opts.Port >= 0 {
		s.creds.URL = "nats://" + ns.Addr().String()
	}
	return s.remember()
}

func (s *Server) awaitReady(ctx context.Context) error {
	limit := startTimeout
	if t, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(t))
	}
	if s.ns.ReadyForConnections(limit) {
		return nil
	}
	if fault := s.log.fault(); fault != "" {
		return s.startError(fault)
	}
	return fmt.Errorf("start embedded server on %s: not ready after %v", s.opts.StoreDir, limit)
}

// URL is the address clients connect to, without credentials; empty when the
// server does not listen.
func (s *Server) URL() string { return s.creds.URL }

// Options are ready for [Connect], in process and with the credentials.
func (s *Server) Options() Options {
	return Options{InProcess: s.ns, User: s.creds.User, Password: s.creds.Password, Log: s.opts.Log}
}

// RemoteOptions are ready for [Connect] over loopback TCP, with the credentials.
func (s *Server) RemoteOptions() Options {
	return Options{URL: s.creds.URL, User: s.creds.User, Password: s.creds.Password, Log: s.opts.Log}
}

// Failed is closed when the server can no longer store anything; Err says why.
func (s *Server) Failed() <-chan struct{} { return s.log.failed }

// Err is why the server failed, nil while it has not.
func (s *Server) Err() error {
	fault := s.log.fault()
	if fault == "" {
		return nil
	}
	return s.startError(fault)
}

// Shutdown stops the server and waits for it; the store can then be opened
// again. Close connections first, or they try to reconnect for ever.
func (s *Server) Shutdown() {
	s.once.Do(func() {
		if s.ns != nil {
			s.ns.Shutdown()
			s.ns.WaitForShutdown()
		}
		if s.opts.CredentialsFile != "" && s.creds.URL != "" {
			_ = os.Remove(s.opts.CredentialsFile)
		}
		_ = s.lock.Close() // which unlocks it
	})
}
