package bus_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

func ensureRun(t testing.TB, c *bus.Conn) { ensure(t, c, subjects.StreamOptions{}) }

// quiet clears what the developer's shell may set.
func quiet(t *testing.T) {
	for _, k := range []string{"NATS_URL", "NATS_CREDS", "NATS_NKEY", "NATS_USER", "NATS_PASSWORD", "NATS_TOKEN", "NATS_CERT", "NATS_KEY", "NATS_CA", "NATS_CONTEXT"} {
		t.Setenv(k, "")
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
}

func TestConnect_UnreachableIsOneLineThatSaysWhatToDo(t *testing.T) {
	quiet(t)
	_, err := bus.Connect(t.Context(), bus.Options{URL: "nats://secret:word@127.0.0.1:1"})
	if !errors.Is(err, bus.ErrUnreachable) {
		t.Fatal(err)
	}
	if s := err.Error(); strings.Contains(s, "word") || strings.Contains(s, "\n") || !strings.Contains(s, "--url") || !strings.Contains(s, "127.0.0.1:1") {
		t.Errorf("message %q", s)
	}
}

// selectContext writes a context of the nats CLI.
func writeContext(t *testing.T, name, content string, selected bool) {
	t.Helper()
	dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "nats", "context")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if !selected {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "..", "context.txt"), []byte(name), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestConnect_TakesFlagThenEnvironmentThenContext(t *testing.T) {
	s := natstest.Loopback(t)
	o := s.RemoteOptions()
	good := `{"url":"` + s.URL() + `","user":"` + o.User + `","password":"` + o.Password + `"}`
	bad := `{"url":"nats://127.0.0.1:1"}`
	for _, c := range []struct {
		name  string
		setup func(t *testing.T) bus.Options
		want  error
	}{
		{"flags", func(*testing.T) bus.Options { return o }, nil},
		{"environment", func(t *testing.T) bus.Options {
			t.Setenv("NATS_URL", s.URL())
			t.Setenv("NATS_USER", o.User)
			t.Setenv("NATS_PASSWORD", o.Password)
			return bus.Options{}
		}, nil},
		{"selected context", func(t *testing.T) bus.Options {
			writeContext(t, "good", good, true)
			return bus.Options{}
		}, nil},
		{"named context over the selected one", func(t *testing.T) bus.Options {
			writeContext(t, "bad", bad, true)
			writeContext(t, "good", good, false)
			return bus.Options{Context: "good"}
		}, nil},
		{"context of the environment", func(t *testing.T) bus.Options {
			writeContext(t, "good", good, false)
			t.Setenv("NATS_CONTEXT", "good")
			return bus.Options{}
		}, nil},
		{"flag over the context's address", func(t *testing.T) bus.Options {
			writeContext(t, "good", good, true)
			return bus.Options{URL: "nats://127.0.0.1:1"}
		}, bus.ErrUnreachable},
		{"environment over the context's address", func(t *testing.T) bus.Options {
			writeContext(t, "good", good, true)
			t.Setenv("NATS_URL", "nats://127.0.0.1:1")
			return bus.Options{}
		}, bus.ErrUnreachable},
		{"flag over the environment", func(t *testing.T) bus.Options {
			t.Setenv("NATS_URL", "nats://127.0.0.1:1")
			return o
		}, nil},
		{"no credentials", func(*testing.T) bus.Options { return bus.Options{URL: s.URL()} }, bus.ErrPermission},
	} {
		t.Run(c.name, func(t *testing.T) {
			quiet(t)
			conn, err := bus.Connect(t.Context(), c.setup(t))
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if err == nil {
				_ = conn.Close()
			}
		})
	}
}

func TestConnect_AnUnknownContextIsNamed(t *testing.T) {
	quiet(t)
	_, err := bus.Connect(t.Context(), bus.Options{Context: "nowhere"})
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("got %v", err)
	}
}

func TestConnect_WithoutAnythingTriesTheDefaultAddress(t *testing.T) {
	quiet(t)
	_, err := bus.Connect(t.Context(), bus.Options{})
	if err != nil && !strings.Contains(err.Error(), "127.0.0.1:4222") {
		t.Errorf("got %v", err)
	}
}

// TestTell_AMuteConnectionSaysNothing: its holder does, everything else works.
func TestTell_AMuteConnectionSaysNothing(t *testing.T) {
	s := natstest.Loopback(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := s.RemoteOptions()
	o.Mute = true
	mute, err := bus.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	loud := natstest.Connect(t, s)
	heard, err := loud.NC().SubscribeSync("says.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := loud.NC().FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	if err := mute.Tell("says.mute", nil); err != nil {
		t.Fatal(err)
	}
	if err := mute.NC().FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	if err := loud.Tell("says.loud", []byte("x")); err != nil {
		t.Fatal(err)
	}
	m, err := heard.NextMsgWithContext(ctx)
	if err != nil || m.Subject != "says.loud" || !mute.Mute() || loud.Mute() {
		t.Errorf("heard %+v, %v", m, err)
	}
}
