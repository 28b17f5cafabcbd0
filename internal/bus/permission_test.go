package bus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// limited starts a server whose user "role" may only publish to allow and
// subscribe to inbox, and prepares the run as "admin".
func limited(t *testing.T, inbox string, allow ...string) bus.Options {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, JetStreamMaxStore: 1 << 50,
		Users: []*server.User{
			{Username: "admin", Password: "a"},
			{Username: "role", Password: "r", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: allow}, Subscribe: &server.SubjectPermission{Allow: []string{inbox}}}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("server not ready")
	}
	ensureRun(t, open(t, bus.Options{InProcess: s, User: "admin", Password: "a"}))
	return bus.Options{InProcess: s, User: "role", Password: "r"}
}

func open(t *testing.T, o bus.Options) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestPermission_DeniedOperationsFailAtOnceWithTheirType(t *testing.T) {
	c := open(t, limited(t, "_INBOX.>", "nothing"))
	for name, do := range map[string]func() error{
		"send": func() error {
			_, err := bus.Send(t.Context(), c, run.WeightsSubject(subjects.EventCommit), "x", nil, nil)
			return err
		},
		"append": func() error {
			_, err := bus.Append(t.Context(), c, run.LedgerSubject(), nil, nil, 0)
			return err
		},
		"last": func() error {
			_, err := bus.Last(t.Context(), c, ledger, run.LedgerSubject())
			return err
		},
		"follow": func() error {
			return bus.Follow(t.Context(), c, rollouts, "", 1, func(*bus.Msg) error { return nil })
		},
		"fetch": func() error {
			return bus.NewFetcher(c, rollouts, bus.FetchConfig{}).Fetch(t.Context(), sizes(0, 1), func(uint64, nats.Header, []byte) error { return nil })
		},
		"ensure": func() error { return bus.EnsureStreams(t.Context(), c, run, subjects.StreamOptions{}) },
		"tasks": func() error {
			_, err := bus.Tasks(t.Context(), c, run, zerolog.Nop())
			return err
		},
		"task": func() error {
			_, err := bus.PublishTask(t.Context(), c, run, task("t1", 0, 0))
			return err
		},
		"publish": func() error {
			_, err := publisher(t, c, bus.PublisherConfig{}).PublishEncoded(t.Context(), entry("t1", 0), []byte("x"))
			return err
		},
		"engine": func() error { return bus.PutEngine(t.Context(), c, run, &subjects.EngineRecord{Engine: "e"}) },
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			err := do()
			if !errors.Is(err, bus.ErrPermission) || time.Since(start) > 5*time.Second {
				t.Errorf("got %v after %v", err, time.Since(start))
			}
		})
	}
}

func TestPermission_AnInboxOfItsOwnWorksAndTheDefaultOneSaysWhatToDo(t *testing.T) {
	o := limited(t, "_INBOX.producer.>", ">")
	plain, err := bus.Connect(t.Context(), o)
	if err == nil {
		t.Cleanup(func() { _ = plain.Close() })
		_, err = bus.Send(t.Context(), plain, run.LedgerSubject(), "x", nil, nil)
	}
	if !errors.Is(err, bus.ErrPermission) || !strings.Contains(err.Error(), "inbox prefix") {
		t.Errorf("got %v", err)
	}
	o.InboxPrefix = "_INBOX.producer"
	c := open(t, o)
	fill(t, c, 1, 3, 10)
	err = bus.Follow(t.Context(), c, rollouts, "", 3, func(*bus.Msg) error { return errDone })
	if !errors.Is(err, errDone) {
		t.Errorf("follow: %v", err)
	}
}
