package show_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const testRun = subjects.Run("shown")

// world has three groups of two; the ledger has a verdict on t0, whose second
// slot took two attempts.
type world struct {
	*testing.T
	conn *bus.Conn
	at   map[string]subjects.Address
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, conn: natstest.Connect(t, natstest.InProcess(t)), at: map[string]subjects.Address{}}
	w.must(bus.EnsureStreams(t.Context(), w.conn, testRun, subjects.StreamOptions{RolloutBytes: 1 << 26}))
	w.publish("t0", 0, 0)
	w.publish("t0", 1, 0)
	w.publish("t0", 1, 1)
	w.publish("t1", 0, 0)
	w.publish("e0-0", 0, 0)
	one := subjects.Entry{Issued: []subjects.Issue{{Kind: subjects.Train, First: 0, Count: 1}}}
	two := subjects.Entry{Rollouts: w.at["t0/1/1"].Seq, Issued: []subjects.Issue{{Kind: subjects.Train, First: 1, Count: 1}}, Verdicts: []subjects.Verdict{{Group: "t0", Outcome: subjects.Kept, Members: []subjects.Member{
		{Slot: 0, Seq: w.at["t0/0/0"].Seq}, {Slot: 1, Attempt: 1, Seq: w.at["t0/1/1"].Seq},
	}}}}
	head := uint64(0)
	for _, e := range []subjects.Entry{one, two} {
		data, err := subjects.EncodeMessage(&e)
		w.must(err)
		head, err = bus.Append(t.Context(), w.conn, testRun.LedgerSubject(), nil, data, head)
		w.must(err)
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) publish(g subjects.GroupID, s subjects.Slot, a subjects.Attempt) {
	w.Helper()
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: testRun, Producer: "p1"})
	t := &subjects.Trajectory{Kind: subjects.Train, Group: g, Slot: s, Attempt: a, Environment: "lake", Producer: "p1", Status: subjects.Failed, Reason: "engine",
		Messages: []subjects.Message{{Role: "user", Content: "go"}}}
	at, err := p.Publish(w.Context(), t)
	w.must(err)
	w.must(p.Close(context.WithoutCancel(w.Context())))
	w.at[t.ID()] = at
}

func TestFind_WhateverTheLedgerKnows(t *testing.T) {
	w := newWorld(t)
	for id, at := range w.at {
		b, err := show.Find(t.Context(), w.conn, testRun, id)
		if err != nil || b.Address != at || b.Trajectory.ID() != id || b.Producer != "p1" || b.Time.IsZero() || b.Bytes == 0 {
			t.Errorf("%s: found %+v: %v", id, b, err)
		}
	}
	if _, err := show.Find(t.Context(), w.conn, testRun, "t9/0/0"); !errors.Is(err, show.ErrMissing) {
		t.Errorf("a trajectory that is not there: %v", err)
	}
	w.must(bus.Purge(t.Context(), w.conn, testRun, subjects.Rollouts, w.at["t1/0/0"].Seq))
	if _, err := show.Find(t.Context(), w.conn, testRun, "t0/0/0"); !errors.Is(err, show.ErrMissing) || !strings.Contains(err.Error(), "purged") {
		t.Errorf("a purged trajectory: %v", err)
	}
}

func TestFetchAll_SaysOfEachWhatBecameOfIt(t *testing.T) {
	w := newWorld(t)
	list := []subjects.Address{w.at["t0/0/0"], {Seq: 99}, {Seq: w.at["t1/0/0"].Seq, Index: 7}, w.at["t1/0/0"]}
	var mu sync.Mutex
	got := make([]string, len(list))
	w.must(show.FetchAll(t.Context(), w.conn, testRun, bus.FetchConfig{}, list, func(i int, b *show.Body, err error) error {
		mu.Lock()
		defer mu.Unlock()
		if got[i] = fmt.Sprint(err); err == nil {
			got[i] = b.Trajectory.ID()
		}
		return nil
	}))
	if got[0] != "t0/0/0" || got[3] != "t1/0/0" || !strings.Contains(got[1], "purged") || !strings.Contains(got[2], "not there") {
		t.Errorf("fetched %q", got)
	}
}

func TestWriteText_IsAConversation(t *testing.T) {
	tr := &subjects.Trajectory{Group: "t1", Environment: "lake", Status: subjects.Succeeded, Reward: 1, Components: map[string]float64{"goal": 1},
		Turns:    []subjects.Turn{{Completion: subjects.Span{Start: 2, End: 9}, Queued: 1e9, Generated: 2e9, Stepped: 2.5e9, Cached: 3, Reward: 0.5}},
		Messages: []subjects.Message{{Role: "user", Content: strings.Repeat("line\n", 100)}, {Role: "assistant", Content: "left\x1b[2J"}, {Role: "tool", Name: "lake", Content: "ok"}}}
	var out strings.Builder
	show.WriteText(&out, tr, false)
	for _, want := range []string{"[80 lines left out", "-- turn 1: 7 tokens, 1s to generate, 500ms in the environment, 3 prompt tokens cached, reward 0.500", "tool (lake)", "goal 1.000"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("a terminal would obey it")
	}
	out.Reset()
	if show.WriteText(&out, tr, true); strings.Contains(out.String(), "left out") {
		t.Error("folded though all was asked for")
	}
}
