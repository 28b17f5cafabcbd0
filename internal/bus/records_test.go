package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

func TestRuns_AreCreatedOnceAndListedByName(t *testing.T) {
	c := ready(t)
	for _, name := range []subjects.Run{"b", "a"} {
		if err := bus.CreateRun(t.Context(), c, &subjects.RunRecord{V: 1, Run: name, Schema: 1, Recipe: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := bus.CreateRun(t.Context(), c, &subjects.RunRecord{Run: "a"}); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("created twice: %v", err)
	}
	all, err := bus.Runs(t.Context(), c)
	if err != nil || len(all) != 2 || all[0].Run != "a" || all[1].Run != "b" {
		t.Errorf("got %+v, %v", all, err)
	}
	if _, err := bus.LookupRun(t.Context(), c, "c"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
	if err := bus.PutRun(t.Context(), c, &subjects.RunRecord{Run: "a", Schema: subjects.SchemaVersion + 1, Version: "9.9"}); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.LookupRun(t.Context(), c, "a"); !errors.Is(err, bus.ErrIncompatible) || !strings.Contains(err.Error(), "9.9") {
		t.Errorf("newer schema: %v", err)
	}
	if err := bus.DeleteRun(t.Context(), c, "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.LookupRun(t.Context(), c, "b"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

func TestRuns_ABusWithoutAnyIsEmptyNotAnError(t *testing.T) {
	c := natstest.Connect(t, natstest.InProcess(t))
	if all, err := bus.Runs(t.Context(), c); err != nil || len(all) != 0 {
		t.Errorf("got %v, %v", all, err)
	}
	if _, err := bus.LookupRun(t.Context(), c, "x"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestEngines_AppearChangeAndExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ready(t)
		put := func(e string, ready bool) {
			if err := bus.PutEngine(t.Context(), c, run, &subjects.EngineRecord{V: 1, Engine: e, Ready: ready, At: time.Now().UnixNano()}); err != nil {
				t.Error(err)
			}
		}
		put("e1", false)
		start := time.Now()
		time.AfterFunc(10*time.Second, func() { put("e1", false) }) // a refresh is no change
		time.AfterFunc(20*time.Second, func() { put("e1", true) })
		time.AfterFunc(21*time.Second, func() { put("e2", true) })
		time.AfterFunc(22*time.Second, func() { _ = bus.RemoveEngine(t.Context(), c, run, "e2") })
		var got []string
		var last time.Duration
		err := bus.WatchEngines(t.Context(), c, run, func(all []subjects.EngineRecord) error {
			s := ""
			for _, e := range all {
				s += e.Engine
				if e.Ready {
					s += "+"
				}
			}
			if got = append(got, s); len(got) == 5 {
				last = time.Since(start)
				return errDone
			}
			return nil
		})
		if want := "e1 e1+ e1+e2+ e1+ "; !errors.Is(err, errDone) || strings.Join(got, " ") != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		if last < 20*time.Second+bus.EngineTTL || last > 25*time.Second+bus.EngineTTL {
			t.Errorf("the silent engine was gone after %v", last)
		}
		if all, err := bus.Engines(t.Context(), c, run); err != nil || len(all) != 0 {
			t.Errorf("registry holds %v, %v", all, err)
		}
	})
}

func TestBury_KeepsTheOriginalBytesUnderAnIdThatFollowsFromTheirPlace(t *testing.T) {
	c := natstest.Connect(t, natstest.Start(t, bus.ServerOptions{Port: -1, Sync: "10m", MaxPayload: 64 << 10}))
	ensureRun(t, c)
	dead := run.StreamName(subjects.DeadLetter)
	for i, size := range []int{10, 300_000} {
		d := bus.DeadLetter{Stage: subjects.InspectStage, Reason: "a\r\nb: " + strings.Repeat("x", 2000), Source: rollouts, Sequence: 7, Item: i, ID: "t1/0/0", Data: body("dead", size)}
		first, err := bus.Bury(t.Context(), c, run, d)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := bus.Bury(t.Context(), c, run, d); err != nil || again != first {
			t.Errorf("buried twice: %d and %d, %v", first, again, err)
		}
		err = bus.NewFetcher(c, dead, bus.FetchConfig{}).Fetch(t.Context(), sizes(0, first), func(_ uint64, hdr nats.Header, data []byte) error {
			if string(data) != string(d.Data) {
				t.Errorf("%d bytes came back, not the original %d", len(data), size)
			}
			if r := hdr.Get(subjects.HeaderReason); !strings.HasPrefix(r, "a  b: x") || len(r) > 512 {
				t.Errorf("reason %q", r)
			}
			if hdr.Get(subjects.HeaderSequence) != "7" || hdr.Get(subjects.HeaderSource) != rollouts || hdr.Get(subjects.HeaderID) != "t1/0/0" {
				t.Errorf("headers %v", hdr)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestClose_IsBoundedWithoutAServer(t *testing.T) {
	s := natstest.NewRestartable(t)
	c := s.Connect(t)
	s.Stop()
	done := make(chan error, 1)
	go func() { done <- c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("close hangs")
	}
	s.Start(t)
}
