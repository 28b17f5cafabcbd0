package bus_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

func TestPublisher_IdleSendsAtOnceAndTheAddressHolds(t *testing.T) {
	c := ready(t)
	p := publisher(t, c, bus.PublisherConfig{})
	for i := range 3 {
		e := entry("t1", i)
		at, err := p.PublishEncoded(t.Context(), e, body(e.ID(), 100))
		if err != nil || at.Seq != uint64(i+1) || at.Index != 0 {
			t.Fatalf("got %+v, %v", at, err)
		}
	}
	if s := p.Stats(); s.Bundles != 3 || s.Trajectories != 3 || s.Waiting != 0 || s.PendingBytes != 0 {
		t.Errorf("stats %+v", s)
	}
	collect(t, c, func(ids []string) bool { return len(ids) == 3 })
}

func TestPublisher_UnderLoadManyTrajectoriesShareABundle(t *testing.T) {
	c := ready(t)
	p := publisher(t, c, bus.PublisherConfig{})
	publishMany(t, p, 50, 40)
	if s := p.Stats(); s.Trajectories != 2000 || s.Bundles > 1000 {
		t.Errorf("stats %+v: want fewer messages than trajectories", s)
	}
	seen := map[string]bool{}
	for _, id := range collect(t, c, func(ids []string) bool { return len(ids) == 2000 }) {
		seen[id] = true
	}
	if len(seen) != 2000 {
		t.Errorf("%d different trajectories", len(seen))
	}
}

// publishMany publishes from many goroutines, n trajectories each.
func publishMany(t testing.TB, p *bus.Publisher, goroutines, n int) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range n {
				e := entry(fmt.Sprintf("t%d", g), i)
				if _, err := p.PublishEncoded(t.Context(), e, body(e.ID(), 300)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestPublisher_WholeTrajectoriesComeBackAsTheyWere(t *testing.T) {
	c := ready(t)
	p := publisher(t, c, bus.PublisherConfig{})
	if _, err := p.Publish(t.Context(), trajectory("t9", 4, 512)); err != nil {
		t.Fatal(err)
	}
}

func TestPublisher_AFullStreamHoldsBackUntilThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := natstest.Connect(t, natstest.InProcess(t))
		ensure(t, c, subjects.StreamOptions{RolloutBytes: 64 << 10})
		p := publisher(t, c, bus.PublisherConfig{BundleBytes: 8 << 10})
		var stored atomic.Int64
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				e := entry("t1", i)
				if _, err := p.PublishEncoded(t.Context(), e, body(e.ID(), 7<<10)); err != nil {
					t.Error(err)
				}
				stored.Add(1)
			})
		}
		time.Sleep(10 * time.Minute)
		s := p.Stats()
		if n := stored.Load(); n == 0 || n > 9 || !s.Blocked || s.Full == 0 || s.Waiting != 20-int(n) || s.PendingBytes != (20-int(n))*7<<10 {
			t.Fatalf("%d stored, stats %+v", n, s)
		}
		for stored.Load() < 20 {
			st, err := bus.StreamState(t.Context(), c, run, subjects.Rollouts)
			if err != nil {
				t.Fatal(err)
			}
			if err := bus.Purge(t.Context(), c, run, subjects.Rollouts, st.LastSeq+1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		wg.Wait()
		if s := p.Stats(); s.Blocked || s.Waiting != 0 || s.Trajectories != 20 || s.Failed != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestPublisher_ACancelledCallerIsReleasedFromAFullStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := natstest.Connect(t, natstest.InProcess(t))
		ensure(t, c, subjects.StreamOptions{RolloutBytes: 1 << 10})
		p := publisher(t, c, bus.PublisherConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		e := entry("t1", 0)
		_, err := p.PublishEncoded(ctx, e, body(e.ID(), 2<<10))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if s := p.Stats(); s.Waiting != 0 || s.PendingBytes != 0 || s.Blocked || s.Failed != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestPublisher_WhatCannotStandInAnIndexIsRefusedAlone(t *testing.T) {
	c := ready(t)
	p := publisher(t, c, bus.PublisherConfig{})
	for _, spoil := range []func(*subjects.IndexEntry){
		func(e *subjects.IndexEntry) { e.Group = "a\r\nNats-Msg-Id: b" },
		func(e *subjects.IndexEntry) { e.Reward = math.NaN() },
		func(e *subjects.IndexEntry) { e.Environment = "" },
		func(e *subjects.IndexEntry) { e.Kind = "other" },
	} {
		e := entry("t1", 0)
		spoil(&e)
		if _, err := p.PublishEncoded(t.Context(), e, []byte("x")); !errors.Is(err, bus.ErrMalformed) {
			t.Errorf("entry %+v: %v", e, err)
		}
	}
}

func TestPublisher_ALostAnswerIsRepeatedUnderTheSameId(t *testing.T) {
	s := natstest.Loopback(t)
	proxy := natstest.NewProxy(t, s)
	direct := natstest.Connect(t, s)
	ensureRun(t, direct)
	p := publisher(t, proxy.Connect(t), bus.PublisherConfig{})
	for i := range 3 {
		proxy.CutAfterNext(run.RolloutSubject("p1"))
		e := entry("t1", i)
		at, err := p.PublishEncoded(t.Context(), e, body(e.ID(), 100))
		if err != nil || at.Seq != uint64(i+1) {
			t.Fatalf("got %+v, %v", at, err)
		}
	}
	if s := p.Stats(); s.Duplicates != 3 || s.Retries < 3 || proxy.Cuts() != 3 {
		t.Errorf("stats %+v", s)
	}
}

func TestPublisher_NothingIsLostOrDoubledThroughRestarts(t *testing.T) {
	s := natstest.NewRestartable(t)
	c := s.Connect(t)
	ensureRun(t, c)
	p := publisher(t, c, bus.PublisherConfig{})
	const goroutines, each = 20, 60
	var at sync.Map
	var wg sync.WaitGroup
	var count atomic.Int64
	progress := make(chan struct{}, goroutines*each)
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				e := entry(fmt.Sprintf("t%d", g), i)
				a, err := p.PublishEncoded(t.Context(), e, body(e.ID(), 2000))
				if err != nil {
					t.Error(err)
					return
				}
				at.Store(a, e.ID())
				count.Add(1)
				progress <- struct{}{}
			}
		})
	}
	for range 3 {
		for range 150 {
			<-progress
		}
		s.Restart(t)
	}
	wg.Wait()
	const total = goroutines * each
	seen := map[string]bool{}
	for _, id := range collect(t, c, func(ids []string) bool { return len(ids) == total }) {
		seen[id] = true
	}
	st, err := bus.StreamState(t.Context(), c, run, subjects.Rollouts)
	if stats := p.Stats(); len(seen) != total || err != nil || st.Msgs != stats.Bundles || stats.Trajectories != total {
		t.Errorf("%d different trajectories in %d messages, stats %+v, %v", len(seen), st.Msgs, stats, err)
	}
	addresses := 0
	at.Range(func(any, any) bool { addresses++; return true })
	if addresses != total {
		t.Errorf("%d different addresses", addresses)
	}
}

func TestPublisher_AClosedOneRefusesAndAHungOneGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := natstest.Connect(t, natstest.InProcess(t))
		ensure(t, c, subjects.StreamOptions{RolloutBytes: 1 << 10})
		p := bus.NewPublisher(c, bus.PublisherConfig{Run: run, Producer: "p1"})
		var wg sync.WaitGroup
		wg.Go(func() {
			e := entry("t1", 0)
			if _, err := p.PublishEncoded(t.Context(), e, body(e.ID(), 2<<10)); err == nil {
				t.Error("published into a full stream")
			}
		})
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		wg.Wait()
		if _, err := p.PublishEncoded(t.Context(), entry("t1", 1), []byte("x")); !errors.Is(err, bus.ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}
