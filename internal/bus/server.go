package bus

import (
	"context"
	"errors"

	"github.com/rs/zerolog"
)

// ServerOptions configure the embedded server.
type ServerOptions struct {
	// StoreDir is the folder of the store; nothing is written outside it,
	// CredentialsFile apart.
	StoreDir string
	// Host to listen on. Default 127.0.0.1; a loopback address is required.
	Host string
	// Port to listen on: 0 any free one, -1 none (in-process connections only).
	Port int
	// Sync says when writes reach the disk: "always" (default: before they are
	// acknowledged) or an interval such as "1s".
	Sync string
	// MaxPayload is the largest message in bytes. Default 8 MiB.
	MaxPayload int32
	// MaxStore bounds the store in bytes. Default 0: the disk.
	MaxStore int64
	// CredentialsFile, when set, gets URL, user and password as JSON, mode 0600,
	// so that another process of the same user can join. It is removed at shutdown.
	CredentialsFile string
	Log             zerolog.Logger
}

// Server is a NATS server inside this process.
type Server struct{}

// StartServer starts a server and returns when it serves. Errors: ErrPortInUse,
// ErrStore, ErrStoreLocked, ErrDiskFull, each one line that says what to do.
func StartServer(ctx context.Context, o ServerOptions) (*Server, error) {
	return nil, errors.ErrUnsupported
}

// URL is the address clients connect to, without credentials; empty when the
// server does not listen.
func (s *Server) URL() string { return "" }

// Options are ready for [Connect], in process and with the credentials.
func (s *Server) Options() Options { return Options{} }

// Shutdown stops the server and waits for it; the store can then be opened again.
func (s *Server) Shutdown() {}
