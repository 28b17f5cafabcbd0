package bus_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
)

func TestServer_RefusesWithOneLineThatSaysWhatToDo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	live := t.TempDir()
	natstest.Start(t, bus.ServerOptions{StoreDir: live, Port: -1})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    bus.ServerOptions
		want error
		text string
	}{
		{"port in use", bus.ServerOptions{StoreDir: t.TempDir(), Port: l.Addr().(*net.TCPAddr).Port}, bus.ErrPortInUse, "use port 0"},
		{"folder in use", bus.ServerOptions{StoreDir: live, Port: -1}, bus.ErrStoreLocked, "join it with --url"},
		{"folder is a file", bus.ServerOptions{StoreDir: filepath.Join(file, "store"), Port: -1}, bus.ErrStore, "use another"},
		{"no folder", bus.ServerOptions{Port: -1}, bus.ErrStore, "no folder"},
		{"public address", bus.ServerOptions{StoreDir: t.TempDir(), Host: "0.0.0.0"}, nil, "only a loopback address"},
		{"sync", bus.ServerOptions{StoreDir: t.TempDir(), Port: -1, Sync: "sometimes"}, nil, `want "always"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := bus.StartServer(t.Context(), c.o)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if s := err.Error(); !strings.Contains(s, c.text) || strings.Contains(s, "\n") {
				t.Errorf("message %q: want one line with %q", s, c.text)
			}
		})
	}
}

func TestServer_AFailedStartLeavesTheStoreFree(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dir := t.TempDir()
	if _, err := bus.StartServer(t.Context(), bus.ServerOptions{StoreDir: dir, Port: l.Addr().(*net.TCPAddr).Port}); !errors.Is(err, bus.ErrPortInUse) {
		t.Fatal(err)
	}
	natstest.Start(t, bus.ServerOptions{StoreDir: dir, Port: -1})
}

func TestServer_OnlyItsCredentialsOpenIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nats.json")
	s := natstest.Start(t, bus.ServerOptions{CredentialsFile: file})
	if _, err := bus.Connect(t.Context(), bus.Options{URL: s.URL(), User: "headrace", Password: "guess"}); !errors.Is(err, bus.ErrPermission) {
		t.Errorf("wrong password: %v", err)
	}
	st, err := os.Stat(file)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("credentials file: %v %v", st, err)
	}
	c, err := bus.Connect(t.Context(), bus.Options{CredentialsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	var content struct{ URL, User, Password string }
	b, _ := os.ReadFile(file)
	if err := json.Unmarshal(b, &content); err != nil || content.URL != s.URL() || len(content.Password) < 20 {
		t.Errorf("content %s: %v", b, err)
	}
	s.Shutdown()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("credentials outlive the server: %v", err)
	}
}

func TestServer_WritesNothingOutsideItsFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	c := natstest.Connect(t, natstest.Start(t, bus.ServerOptions{StoreDir: filepath.Join(dir, "store"), Port: -1, Sync: "1s"}))
	ensureRun(t, c)
	for _, d := range []string{dir, os.TempDir()} {
		entries, err := os.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "store" {
				t.Errorf("%s/%s was written", d, e.Name())
			}
		}
	}
}
