package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// stream makes a stream of the test's own.
func stream(t *testing.T, c *bus.Conn, cfg jetstream.StreamConfig) {
	t.Helper()
	cfg.Storage, cfg.Discard = jetstream.FileStorage, jetstream.DiscardNew
	if _, err := c.JS().CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// TestErrors_EveryAnswerOfTheServerHasItsType provokes each answer on a real server.
func TestErrors_EveryAnswerOfTheServerHasItsType(t *testing.T) {
	c := natstest.Connect(t, natstest.Start(t, bus.ServerOptions{Port: -1, Sync: "10m", MaxPayload: 48 << 20, MaxStore: 1 << 30}))
	js := func(cfg jetstream.StreamConfig) { stream(t, c, cfg) }
	js(jetstream.StreamConfig{Name: "BYTES", Subjects: []string{"bytes"}, MaxBytes: 1024})
	js(jetstream.StreamConfig{Name: "MSGS", Subjects: []string{"msgs"}, MaxMsgs: 1})
	js(jetstream.StreamConfig{Name: "ONE", Subjects: []string{"one.*"}, MaxMsgsPerSubject: 1, DiscardNewPerSubject: true})
	js(jetstream.StreamConfig{Name: "SIZE", Subjects: []string{"size"}, MaxMsgSize: 100})
	js(jetstream.StreamConfig{Name: "BIG", Subjects: []string{"big"}})
	js(jetstream.StreamConfig{Name: "CAS", Subjects: []string{"cas"}})
	send := func(subject string, n int) error {
		_, err := bus.Send(t.Context(), c, subject, "", nil, make([]byte, n))
		return err
	}
	twice := func(subject string, n int) func() error {
		return func() error {
			if err := send(subject, n); err != nil {
				return err
			}
			return send(subject, n)
		}
	}
	_, wide := bus.Append(t.Context(), c, "cas", nil, []byte("a"), 0)
	if wide != nil {
		t.Fatal(wide)
	}
	for _, x := range []struct {
		name string
		do   func() error
		want error
		code int
	}{
		{"maximum bytes", twice("bytes", 600), bus.ErrStreamFull, 10077},
		{"maximum messages", twice("msgs", 1), bus.ErrStreamFull, 10077},
		{"one message a subject", twice("one.a", 1), bus.ErrQueued, 10077},
		{"record over the store's limit", func() error { return send("big", 33<<20) }, bus.ErrTooLarge, 10077},
		{"over max_msg_size", func() error { return send("size", 200) }, bus.ErrTooLarge, 10054},
		{"over max_payload", func() error { return send("big", 49<<20) }, bus.ErrTooLarge, 0},
		{"wrong last sequence", func() error {
			_, err := bus.Append(t.Context(), c, "cas", nil, nil, 0)
			return err
		}, bus.ErrConflict, 10071},
		{"no such stream to read", func() error {
			_, err := bus.Last(t.Context(), c, "NONE", "x")
			return err
		}, bus.ErrNoStream, 10059},
		{"no such message", func() error {
			_, err := bus.Last(t.Context(), c, "BIG", "big")
			return err
		}, bus.ErrNotFound, 10037},
		{"storage reserved", func() error {
			return bus.EnsureStreams(t.Context(), c, "huge", subjects.StreamOptions{})
		}, bus.ErrDiskFull, 10047},
	} {
		t.Run(x.name, func(t *testing.T) {
			err := x.do()
			var api *bus.APIError
			if !errors.Is(err, x.want) || !errors.As(err, &api) || api.Code != x.code {
				t.Fatalf("got %v (%+v), want %v with code %d", err, api, x.want, x.code)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("message of several lines: %q", err)
			}
		})
	}
}

func TestErrors_NobodyListensIsNoStreamAfterRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := natstest.Connect(t, natstest.InProcess(t))
		start := time.Now()
		if _, err := bus.Send(t.Context(), c, "nobody", "", nil, nil); !errors.Is(err, bus.ErrNoStream) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited < time.Second || waited > time.Minute {
			t.Errorf("believed after %v", waited)
		}
		ctx, cancel := contextWithin(t, 1)
		defer cancel()
		if _, err := bus.Send(ctx, c, "nobody", "", nil, nil); !errors.Is(err, bus.ErrNoStream) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("within a second: %v", err)
		}
	})
}

func TestErrors_TheConnectionsErrorsAreTyped(t *testing.T) {
	c, err := bus.Connect(t.Context(), natstest.InProcess(t).Options())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = bus.Send(t.Context(), c, "x", "", nil, nil)
	if !errors.Is(err, bus.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestEnsureStreams_TwiceIsOnceAndADifferenceIsNamed(t *testing.T) {
	c := ready(t)
	ensureRun(t, c)
	ensure(t, c, subjects.StreamOptions{RolloutBytes: 1 << 20})
	st, err := c.JS().Stream(t.Context(), run.StreamName(subjects.Rollouts))
	if err != nil || st.CachedInfo().Config.MaxBytes != 1<<20 {
		t.Fatalf("the limit was not applied: %v", err)
	}
	cfg := run.StreamConfig(subjects.Rollouts, subjects.StreamOptions{})
	cfg.Discard = jetstream.DiscardOld
	if err := c.JS().DeleteStream(t.Context(), cfg.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := c.JS().CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	err = bus.EnsureStreams(t.Context(), c, run, subjects.StreamOptions{})
	if !errors.Is(err, bus.ErrIncompatible) || !strings.Contains(err.Error(), "discard is DiscardOld, this version needs DiscardNew") {
		t.Errorf("got %v", err)
	}
	if err := bus.DeleteRun(t.Context(), c, run); err != nil {
		t.Fatal(err)
	}
	ensureRun(t, c)
}

func TestSend_TheSameIdIsStoredOnce(t *testing.T) {
	c := ready(t)
	subject := run.WeightsSubject(subjects.EventCommit)
	hdr := nats.Header{"X": {"y"}}
	for range 3 {
		if seq, err := bus.Send(t.Context(), c, subject, "commit/1", hdr, []byte("a")); err != nil || seq != 1 {
			t.Fatalf("got %d, %v", seq, err)
		}
	}
	m, err := bus.Last(t.Context(), c, run.StreamName(subjects.Weights), subject)
	if err != nil || string(m.Data) != "a" || m.Header.Get("X") != "y" || m.Seq != 1 || m.Time.IsZero() {
		t.Errorf("got %+v, %v", m, err)
	}
}
