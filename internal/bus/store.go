package bus

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
)

// openStore makes the folder and takes its lock.
func openStore(dir string) (*os.File, error) {
	if dir == "" {
		return nil, fmt.Errorf("%w: no folder given", ErrStore)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, storeError(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, storeError(dir, err)
	}
	if err := lockFile(f); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s: another headrace runs on this folder; stop it, join it with --url, or use another folder", ErrStoreLocked, dir)
		}
		return nil, storeError(dir, err)
	}
	if free, err := freeBytes(dir); err == nil && free < minFree {
		_ = f.Close()
		return nil, fmt.Errorf("%w: %s: %d MiB free; free some space or use another folder", ErrDiskFull, dir, free>>20)
	}
	return f, nil
}

func storeError(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: %s: free some space or use another folder", ErrDiskFull, dir)
	}
	return fmt.Errorf("%w: %v; make the folder writable or use another one", ErrStore, err)
}

// credentials is the content of a credentials file.
type credentials struct {
	URL      string `json:"url"`
	User     string `json:"user"`
	Password string `json:"password"`
}

// credentialsName is the store's own copy: a server that comes back on the same
// store keeps its password and address, so that those who joined can go on.
const credentialsName = "credentials.json"

// recall reads the credentials of the store's last server or makes new ones.
func (s *Server) recall() error {
	b, err := os.ReadFile(filepath.Join(s.opts.StoreDir, credentialsName))
	if err == nil && json.Unmarshal(b, &s.creds) == nil && s.creds.User != "" && s.creds.Password != "" {
		return nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return storeError(s.opts.StoreDir, err)
	}
	s.creds = credentials{User: "headrace", Password: rand.Text()}
	return nil
}

// lastPort is the port of the store's last server if it is free, else any.
func (s *Server) lastPort() int {
	u, err := url.Parse(s.creds.URL)
	if err != nil || u.Port() == "" {
		return server.RANDOM_PORT
	}
	l, err := net.Listen("tcp", net.JoinHostPort(s.opts.Host, u.Port()))
	if err != nil {
		return server.RANDOM_PORT
	}
	_ = l.Close()
	port, _ := strconv.Atoi(u.Port()) // it was listened on
	return port
}

// remember writes the credentials beside the store, and where the caller asked for.
func (s *Server) remember() error {
	b, err := json.Marshal(s.creds)
	if err != nil {
		return err
	}
	for _, path := range []string{filepath.Join(s.opts.StoreDir, credentialsName), s.opts.CredentialsFile} {
		if path == "" {
			continue
		}
		tmp := path + ".tmp"
		if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
			return fmt.Errorf("write credentials: %w", err)
		}
		if err := os.Rename(tmp, path); err != nil {
			return fmt.Errorf("write credentials: %w", err)
		}
	}
	return nil
}

// FreeBytes is what may still be written on a folder's disk.
func FreeBytes(dir string) (int64, error) {
	n, err := freeBytes(dir)
	if err != nil {
		return 0, storeError(dir, err)
	}
	return n, nil
}
