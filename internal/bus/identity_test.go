package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// secure is a server that checks credentials, with the run on it.
func secure(t *testing.T) *natstest.Secure {
	t.Helper()
	s := natstest.NewSecure(t, run)
	ensureRun(t, s.Connect(t, "admin"))
	return s
}

func TestIdentity_IsWhatTheCredentialsSay(t *testing.T) {
	s := secure(t)
	for file, want := range map[string][3]string{
		"admin": {"admin", "admin", ""}, "trainer": {"trainer", "trainer", string(run)}, "producers/p02": {"p02", "producer", string(run)},
	} {
		o := s.Options(file)
		id, err := o.Identify()
		if got := [3]string{id.Name, id.Role, string(id.Run)}; err != nil || got != want {
			t.Errorf("%s: %v, %v", file, got, err)
		}
		if c := s.Connect(t, file); c.Identity().Name != want[0] {
			t.Errorf("%s connects as %v", file, c.Identity())
		}
	}
	o := bus.Options{Creds: filepath.Join(s.Dir, "nats.conf")}
	if _, err := o.Identify(); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a file that is none: %v", err)
	}
}

// TestIdentify_EachProcessTakesItsOwnOfAFolder: two processes never hold the
// same credential, and one that ended frees its own.
func TestIdentify_EachProcessTakesItsOwnOfAFolder(t *testing.T) {
	s := secure(t)
	folder := bus.Options{URL: s.URL(), Creds: filepath.Dir(s.File("producers/p01"))}
	first, second, third := folder, folder, folder
	a, err := first.Identify()
	if err != nil || a.Name != "p01" {
		t.Fatalf("%v, %v", a, err)
	}
	if again, err := first.Identify(); err != nil || again.Name != "p01" {
		t.Errorf("%v, %v", again, err)
	}
	b, err := bus.Connect(t.Context(), second)
	if err != nil || b.Identity().Name != "p02" {
		t.Fatal(err)
	}
	if id, err := third.Identify(); err == nil || !strings.Contains(err.Error(), "auth add") {
		t.Errorf("%v, %v", id, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if id, err := third.Identify(); err != nil || id.Name != "p02" {
		t.Errorf("%v, %v", id, err)
	}
}

// TestDenied_FailsTheCallAtOnceAndNamesThePermission, whoever of us asks.
func TestDenied_FailsTheCallAtOnceAndNamesThePermission(t *testing.T) {
	s := secure(t)
	var log lines
	o := s.Options("producers/p01")
	o.Log = zerolog.New(&log)
	c := open(t, o)
	other := subjects.Run("other")
	none := func(*bus.Msg) error { return nil }
	for name, do := range map[string]func(context.Context) error{
		"follow": func(ctx context.Context) error { return bus.Follow(ctx, c, rollouts, "", 1, none) },
		"latest": func(ctx context.Context) error { return bus.FollowLatest(ctx, c, ledger, run.LedgerSubject(), none) },
		"last":   func(ctx context.Context) error { _, err := bus.Last(ctx, c, ledger, run.LedgerSubject()); return err },
		"append": func(ctx context.Context) error {
			_, err := bus.Append(ctx, c, run.LedgerSubject(), nil, nil, 0)
			return err
		},
		"engine": func(ctx context.Context) error {
			return bus.PutEngine(ctx, c, run, &subjects.EngineRecord{Engine: "e"})
		},
		"end":     func(ctx context.Context) error { return bus.PutRun(ctx, c, &subjects.RunRecord{Run: run}) },
		"key":     func(ctx context.Context) error { _, err := bus.LeaseKey(ctx, c, run); return err },
		"purge":   func(ctx context.Context) error { return bus.Purge(ctx, c, run, subjects.Rollouts, 2) },
		"create":  func(ctx context.Context) error { return bus.EnsureStreams(ctx, c, run, subjects.StreamOptions{}) },
		"look up": func(ctx context.Context) error { _, err := bus.LookupRun(ctx, c, other); return err },
		"lease":   func(ctx context.Context) error { _, err := bus.Tasks(ctx, c, other, zerolog.Nop()); return err },
		"another's": func(ctx context.Context) error {
			_, err := bus.Send(ctx, c, run.RolloutSubject("p02"), "id", nil, nil)
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		start := time.Now()
		err := do(ctx)
		cancel()
		if !errors.Is(err, bus.ErrPermission) || time.Since(start) > 5*time.Second || !strings.Contains(err.Error(), "p01 (producer of run test) may not publish") {
			t.Errorf("%s: %v after %v", name, err, time.Since(start))
		}
	}
	// What nobody waits for is said once, in order.
	for _, name := range []string{"p02", "p02", "p02", "p03"} {
		if err := c.NC().Publish(run.TelemetrySubject("produce", name), nil); err != nil {
			t.Fatal(err)
		}
	}
	log.await(t, "telemetry.produce.p03")
	if n := strings.Count(log.String(), "telemetry.produce.p02"); n != 1 {
		t.Errorf("the log says it %d times: %s", n, log.String())
	}
}

// lines is a log that a test may wait for.
type lines struct {
	mu   sync.Mutex
	b    bytes.Buffer
	more chan struct{} // closed with the next line
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) await(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := contextWithin(t, 20)
	defer cancel()
	for {
		l.mu.Lock()
		if strings.Contains(l.b.String(), text) {
			l.mu.Unlock()
			return
		}
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("the log does not say %s: %s", text, l.String())
		}
	}
}

// TestFollow_ByAskingIsTheSame: a role that may not make consumers reads the
// same as one that may: bodies, headers, gaps, what comes later.
func TestFollow_ByAskingIsTheSame(t *testing.T) {
	s := secure(t)
	admin, viewer := s.Connect(t, "admin"), s.Connect(t, "viewer")
	fill(t, admin, 1, 600, 10)
	if err := bus.Purge(t.Context(), admin, run, subjects.Rollouts, 3); err != nil {
		t.Fatal(err)
	}
	st, err := admin.JS().Stream(t.Context(), rollouts)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.DeleteMsg(t.Context(), 500); err != nil {
		t.Fatal(err)
	}
	const late = 620
	read := func(c *bus.Conn) (got []string) {
		ctx, cancel := contextWithin(t, 30)
		defer cancel()
		err := bus.Follow(ctx, c, rollouts, "", 1, func(m *bus.Msg) error {
			got = append(got, fmt.Sprint(m.Seq, m.Subject, m.Header.Get("N"), string(m.Data), m.Skipped, m.Time.UnixNano()))
			switch {
			case m.Seq == 600 && c == viewer: // it waits for what comes later
				fill(t, admin, 601, late-600, 10)
			case m.Seq == late:
				return errDone
			}
			return nil
		})
		if !errors.Is(err, errDone) {
			t.Fatalf("%v after %d", err, len(got))
		}
		return got
	}
	if asked, served := read(viewer), read(admin); !slices.Equal(asked, served) {
		t.Errorf("%d and %d messages, or they differ", len(asked), len(served))
	}
	headers := func(c *bus.Conn) (got []string) {
		ctx, cancel := contextWithin(t, 30)
		defer cancel()
		err := bus.FollowHeaders(ctx, c, run, 590, func(in []bus.HeaderMsg) error {
			for _, m := range in {
				got = append(got, fmt.Sprint(m.Seq, m.Subject, m.Header.Get("N"), m.Size, m.Skipped))
			}
			if in[len(in)-1].Seq == late {
				return errDone
			}
			return nil
		})
		if !errors.Is(err, errDone) {
			t.Fatalf("%v after %d", err, len(got))
		}
		return got
	}
	if asked, served := headers(viewer), headers(admin); !slices.Equal(asked, served) {
		t.Errorf("%v\n%v", asked, served)
	}
	err = bus.Follow(t.Context(), viewer, rollouts, "", late+2, func(*bus.Msg) error { return nil })
	if !errors.Is(err, bus.ErrIncompatible) {
		t.Errorf("a stream that ends before the offset: %v", err)
	}
}

// TestEngines_ByAskingIsTheSame: the registry as a producer sees it.
func TestEngines_ByAskingIsTheSame(t *testing.T) {
	s := secure(t)
	engine, producer := s.Connect(t, "engine"), s.Connect(t, "producers/p01")
	admin := s.Connect(t, "admin")
	if list, err := bus.Engines(t.Context(), producer, run); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	var seen []string
	ctx, cancel := contextWithin(t, 30)
	defer cancel()
	steps := []func() error{
		func() error {
			return bus.PutEngine(ctx, engine, run, &subjects.EngineRecord{Engine: "engine", URL: "a"})
		},
		func() error { return bus.PutEngine(ctx, admin, run, &subjects.EngineRecord{Engine: "e2", URL: "b"}) },
		func() error { return bus.RemoveEngine(ctx, engine, run, "engine") },
		func() error { return errDone },
	}
	err := bus.WatchEngines(ctx, producer, run, func(list []subjects.EngineRecord) error {
		text := ""
		for _, e := range list {
			text += e.Engine + e.URL + " "
		}
		seen = append(seen, text)
		return steps[len(seen)-1]()
	})
	if want := []string{"", "enginea ", "e2b enginea ", "e2b "}; !errors.Is(err, errDone) || !slices.Equal(seen, want) {
		t.Errorf("saw %q, %v", seen, err)
	}
}

// TestAwaitRunEnd_ByAsking: a producer hears the end of the run.
func TestAwaitRunEnd_ByAsking(t *testing.T) {
	s := secure(t)
	admin := s.Connect(t, "admin")
	if err := bus.CreateRun(t.Context(), admin, &subjects.RunRecord{Run: run, Schema: subjects.SchemaVersion}); err != nil {
		t.Fatal(err)
	}
	producer := s.Connect(t, "producers/p01")
	ended := make(chan string, 1)
	go func() {
		reason, err := bus.AwaitRunEnd(t.Context(), producer, run)
		ended <- fmt.Sprint(reason, err)
	}()
	if err := bus.EndRun(t.Context(), s.Connect(t, "grouper"), run, "complete"); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-ended:
		if got != "complete<nil>" {
			t.Error(got)
		}
	case <-time.After(20 * time.Second):
		t.Error("the end is not heard")
	}
}

// TestRuns_AreThoseOneMaySee.
func TestRuns_AreThoseOneMaySee(t *testing.T) {
	s := secure(t)
	admin, viewer := s.Connect(t, "admin"), s.Connect(t, "viewer")
	if list, err := bus.Runs(t.Context(), viewer); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	for _, r := range []subjects.Run{"another", run} {
		if err := bus.CreateRun(t.Context(), admin, &subjects.RunRecord{Run: r, Schema: subjects.SchemaVersion}); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := bus.Runs(t.Context(), admin); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := bus.Runs(t.Context(), viewer); err != nil || len(list) != 1 || list[0].Run != run {
		t.Errorf("%v, %v", list, err)
	}
}
