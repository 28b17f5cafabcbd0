package feed

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxSocketPath is what every system takes: 104 bytes on macOS, 108 on Linux,
// with the final zero.
const maxSocketPath = 103

// hiddenExtra is how much longer than feed.sock the name is that it is bound under.
const hiddenExtra = 8

// SocketPath is where a bridge listens for the trainer of a run that lives in
// dir: a socket there, or one in the system's folder for temporary files where
// the path would be longer than the system takes.
func SocketPath(dir string) string {
	path := filepath.Join(dir, "feed.sock")
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if len(path)+hiddenExtra <= maxSocketPath {
		return path
	}
	h := fnv.New64a()
	h.Write([]byte(path))
	return filepath.Join(os.TempDir(), fmt.Sprintf("headrace-%x.sock", h.Sum64()))
}

// ParseAddress takes "unix:/path" or "tcp:host:port" apart.
func ParseAddress(s string) (network, address string, err error) {
	network, address, _ = strings.Cut(s, ":")
	switch {
	case network == "unix" && address != "" && len(address) <= maxSocketPath:
		return network, address, nil
	case network == "unix" && address != "":
		return "", "", fmt.Errorf("address %s: a socket's path has at most %d bytes, this one %d", s, maxSocketPath, len(address))
	case network == "tcp" && strings.Contains(address, ":"):
		return network, address, nil
	}
	return "", "", fmt.Errorf("address %q is neither unix:/path nor tcp:host:port", s)
}

// Listen listens on an address. A Unix socket is the user's alone (mode 0600)
// from the moment its path exists; one that a dead process left is replaced, one
// that answers is an error.
func Listen(address string) (net.Listener, error) {
	network, where, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		return listenUnix(where)
	}
	l, err := net.Listen(network, where)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: in use by another program", address)
	}
	return l, err
}

func listenUnix(path string) (net.Listener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("listen on unix:%s: another bridge serves it", path)
	}
	// Bound under another name, made private, then moved: at no time can
	// somebody else connect.
	hidden, err := os.MkdirTemp(filepath.Dir(path), ".f")
	if err != nil {
		return nil, fmt.Errorf("listen on unix:%s: %w", path, err)
	}
	defer os.RemoveAll(hidden)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: tempName(hidden)})
	if err != nil {
		return nil, fmt.Errorf("listen on unix:%s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(tempName(hidden), 0o600), os.Rename(tempName(hidden), path)); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("listen on unix:%s: %w", path, err)
	}
	return &unixListener{UnixListener: l, path: path}, nil
}

func tempName(dir string) string { return filepath.Join(dir, "s") }

// unixListener removes its socket when it closes.
type unixListener struct {
	*net.UnixListener
	path string
}

func (l *unixListener) Close() error {
	err := l.UnixListener.Close()
	if e := os.Remove(l.path); e != nil && !errors.Is(e, os.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: l.path} }
