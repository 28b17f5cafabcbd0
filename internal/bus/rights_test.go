package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// TestRoles_TheirCredentialsAreEnough for what their code asks of this package,
// the rarer things too.
func TestRoles_TheirCredentialsAreEnough(t *testing.T) {
	s := secure(t)
	admin := s.Connect(t, "admin")
	if err := bus.CreateRun(t.Context(), admin, &subjects.RunRecord{Run: run, Schema: subjects.SchemaVersion}); err != nil {
		t.Fatal(err)
	}
	fill(t, admin, 1, 20, 10)
	nothing := func(*bus.Msg) error { return nil }
	for role, list := range map[string]map[string]func(context.Context, *bus.Conn) error{
		"trainer": {
			"lease key": func(ctx context.Context, c *bus.Conn) error { _, err := bus.LeaseKey(ctx, c, run); return err },
			"janitor": func(ctx context.Context, c *bus.Conn) error {
				return bus.PurgeRollouts(ctx, c, run, &subjects.PurgedEvent{V: 1, Below: 5})
			},
			"purged": func(ctx context.Context, c *bus.Conn) error { _, err := bus.Purged(ctx, c, run); return err },
			"bury": func(ctx context.Context, c *bus.Conn) error {
				_, err := bus.Bury(ctx, c, run, bus.DeadLetter{Stage: subjects.InspectStage, Source: rollouts, Sequence: 7, Item: 0, Reason: "x"})
				return err
			},
			"room for letters": func(ctx context.Context, c *bus.Conn) error { return bus.Purge(ctx, c, run, subjects.DeadLetter, 1) },
			"sound": func(ctx context.Context, c *bus.Conn) error {
				_, err := bus.StreamSound(ctx, c, run, subjects.Rollouts)
				return err
			},
			"event": func(ctx context.Context, c *bus.Conn) error {
				_, err := bus.Append(ctx, c, run.WeightsSubject(subjects.EventCommit), nil, []byte("x"), 0)
				return err
			},
			"engines": func(ctx context.Context, c *bus.Conn) error { _, err := bus.Engines(ctx, c, run); return err },
		},
		"grouper": {
			"lease key": func(ctx context.Context, c *bus.Conn) error { _, err := bus.LeaseKey(ctx, c, run); return err },
			"entry": func(ctx context.Context, c *bus.Conn) error {
				_, err := bus.Append(ctx, c, run.LedgerSubject(), nil, []byte("x"), 0)
				return err
			},
			"tasks": func(ctx context.Context, c *bus.Conn) error {
				_, err := bus.PublishTask(ctx, c, run, task("t1", 0, 0))
				return err
			},
			"drop": func(ctx context.Context, c *bus.Conn) error { _, err := bus.DropTasks(ctx, c, run); return err },
			"usage": func(ctx context.Context, c *bus.Conn) error {
				_, _, _, err := bus.StreamUsage(ctx, c, run, subjects.Rollouts)
				return err
			},
			"purged":  func(ctx context.Context, c *bus.Conn) error { _, err := bus.Purged(ctx, c, run); return err },
			"end":     func(ctx context.Context, c *bus.Conn) error { return bus.EndRun(ctx, c, run, "complete") },
			"engines": func(ctx context.Context, c *bus.Conn) error { _, err := bus.Engines(ctx, c, run); return err },
		},
		"viewer": {
			"letters": func(ctx context.Context, c *bus.Conn) error {
				return bus.Letters(ctx, c, run, func(*bus.Letter) error { return nil })
			},
			"requeued": func(ctx context.Context, c *bus.Conn) error { _, err := bus.Requeued(ctx, c, run); return err },
			"purged":   func(ctx context.Context, c *bus.Conn) error { _, err := bus.Purged(ctx, c, run); return err },
			"latest": func(ctx context.Context, c *bus.Conn) error {
				return bus.EachLatest(ctx, c, run.StreamName(subjects.Weights), run.WeightsSubject("*"), nothing)
			},
			"state": func(ctx context.Context, c *bus.Conn) error {
				_, err := bus.StreamState(ctx, c, run, subjects.Tasks)
				return err
			},
		},
	} {
		c := s.Connect(t, role)
		for name, do := range list {
			ctx, cancel := contextWithin(t, 20)
			if err := do(ctx, c); err != nil {
				t.Errorf("%s: %s: %v", role, name, err)
			}
			cancel()
		}
	}
}

// TestProducer_LivesThroughARestartOfTheServer: what it waits for comes after.
func TestProducer_LivesThroughARestartOfTheServer(t *testing.T) {
	s := secure(t)
	stand(t, s)
	producer, grouper, engine := s.Connect(t, "producers/p01"), s.Connect(t, "grouper"), s.Connect(t, "engine")
	leases, err := bus.Tasks(t.Context(), producer, run, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = leases.Close() }()
	ctx, cancel := contextWithin(t, 60)
	defer cancel()
	leased, seen, watching := make(chan error, 1), make(chan error, 1), make(chan struct{})
	go func() {
		_, err := leases.Next(ctx)
		leased <- err
	}()
	go func() {
		seen <- bus.WatchEngines(ctx, producer, run, func(list []subjects.EngineRecord) error {
			if len(list) > 0 {
				return errDone
			}
			close(watching)
			return nil
		})
	}()
	<-watching
	s.Restart(t)
	if _, err := bus.PublishTask(ctx, grouper, run, task("t1", 0, 0)); err != nil {
		t.Fatal(err)
	}
	for { // a single put does not try again
		if err = bus.PutEngine(ctx, engine, run, &subjects.EngineRecord{Engine: "engine"}); err == nil || ctx.Err() != nil {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if got := <-leased; got != nil || err != nil {
		t.Errorf("lease %v, engine %v", got, err)
	}
	if got := <-seen; !errors.Is(got, errDone) {
		t.Error(got)
	}
}
