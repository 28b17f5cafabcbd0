package bus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// A server that was started without JetStream is the first one that many have.
func TestEnsureStreams_AServerWithoutJetStreamIsNamed(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	c, err := bus.Connect(t.Context(), bus.Options{URL: s.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, listing := bus.Runs(t.Context(), c)
	for what, err := range map[string]error{"make a run": bus.EnsureStreams(t.Context(), c, "demo", subjects.StreamOptions{}), "list runs": listing} {
		if !errors.Is(err, bus.ErrNoJetStream) || !strings.Contains(err.Error(), "nats-server -js") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
