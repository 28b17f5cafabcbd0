package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const run = subjects.Run("test")

// ready is a connection to a new in-process server with the run's streams.
func ready(t testing.TB) *bus.Conn {
	t.Helper()
	c := natstest.Connect(t, natstest.InProcess(t))
	ensure(t, c, subjects.StreamOptions{})
	return c
}

func ensure(t testing.TB, c *bus.Conn, o subjects.StreamOptions) {
	t.Helper()
	if err := bus.EnsureStreams(t.Context(), c, run, o); err != nil {
		t.Fatal(err)
	}
}

// publisher is closed with the test.
func publisher(t testing.TB, c *bus.Conn, cfg bus.PublisherConfig) *bus.Publisher {
	t.Helper()
	cfg.Run = run
	if cfg.Producer == "" {
		cfg.Producer = "p1"
	}
	p := bus.NewPublisher(c, cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

// entry is a valid index entry of group g and slot s.
func entry(g string, s int) subjects.IndexEntry {
	return subjects.IndexEntry{Kind: subjects.Train, Group: subjects.GroupID(g), Slot: subjects.Slot(s), Status: subjects.Succeeded,
		Reward: 0.5, Segments: 1, Tokens: 10, Longest: 10, Trainable: 4, MinVersion: 3, MaxVersion: 4, Environment: "frozenlake"}
}

// body is recognisable and of n bytes.
func body(id string, n int) []byte {
	return []byte(strings.Repeat(id+".", n/(len(id)+1)+1)[:n])
}

// trajectory is a whole one of n tokens.
func trajectory(g string, s, n int) *subjects.Trajectory {
	t := &subjects.Trajectory{Kind: subjects.Train, Group: subjects.GroupID(g), Slot: subjects.Slot(s), Environment: "frozenlake",
		Producer: "p1", Status: subjects.Succeeded, Reward: 1,
		Segments: []subjects.Segment{{Tokens: make([]int32, n), Logprobs: make([]float32, n/2), Parent: -1,
			Versions: []subjects.VersionSpan{{Start: int32(n - n/2), End: int32(n), Version: 3}},
			LossMask: []subjects.Span{{Start: int32(n - n/2), End: int32(n)}}}}}
	for i := range t.Segments[0].Tokens {
		t.Segments[0].Tokens[i] = int32(i * 7 % 32000)
	}
	return t
}

// collect follows ROLLOUTS until done says so, and returns the ids in order.
func collect(t testing.TB, c *bus.Conn, done func(ids []string) bool) []string {
	t.Helper()
	var ids []string
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	err := bus.FollowBundles(ctx, c, run, 1, func(m *bus.Msg, b *bus.Bundle, err error) error {
		if err != nil {
			return err
		}
		for i := range b.Items {
			it := &b.Items[i]
			if it.Err != nil {
				return it.Err
			}
			if want := body(it.Entry.ID(), it.Entry.Length); string(b.Body(i)) != string(want) {
				return fmt.Errorf("body of %s differs", it.Entry.ID())
			}
			ids = append(ids, it.Entry.ID())
		}
		if done(ids) {
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) {
		t.Fatalf("follow: %v after %d trajectories", err, len(ids))
	}
	return ids
}

var errDone = fmt.Errorf("done")

func contextWithin(t testing.TB, seconds int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
}
