package bus_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// counter counts the leases of some process and acknowledges them.
type counter struct {
	mu  sync.Mutex
	got map[string]int
}

func (c *counter) count() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

// lease takes tasks with some callers until ctx ends.
func (c *counter) lease(ctx context.Context, t *testing.T, conn *bus.Conn, callers int) (wait func()) {
	t.Helper()
	c.got = map[string]int{}
	leases, err := bus.Tasks(ctx, conn, run, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				l, err := leases.Next(ctx)
				if err != nil {
					return
				}
				c.mu.Lock()
				c.got[l.Task.ID()]++
				c.mu.Unlock()
				if l.Ack(ctx) != nil {
					return
				}
			}
		})
	}
	return func() { wg.Wait(); _ = leases.Close() }
}

// stand opens a desk until the returned function is called.
func stand(t *testing.T, s *natstest.Secure) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	conn := s.Connect(t, "grouper")
	go func() { done <- bus.Desk(ctx, conn, run, zerolog.Nop()) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// until waits for a condition that other goroutines bring about.
func until(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		}
	}
}

func publish(ctx context.Context, t *testing.T, c *bus.Conn, from, n int) {
	t.Helper()
	var tasks []*subjects.Task
	for i := from; i < from+n; i++ {
		tasks = append(tasks, task(string(subjects.TrainGroup(uint64(i))), 0, 0))
	}
	if _, err := bus.PublishTasks(ctx, c, run, tasks); err != nil {
		t.Fatal(err)
	}
}

// TestDesk_HandsOutEveryTaskOnceWhoeverComesAndGoes: two desks, one of which
// closes, two producers, one of which dies, and a server that restarts.
func TestDesk_HandsOutEveryTaskOnceWhoeverComesAndGoes(t *testing.T) {
	s := secure(t)
	ctx, cancel := contextWithin(t, 60)
	defer cancel()
	issuer := s.Connect(t, "admin")
	stand(t, s)
	stop := stand(t, s)
	var a, b counter
	waitA := a.lease(ctx, t, s.Connect(t, "producers/p01"), 8)
	dying, kill := context.WithCancel(ctx)
	waitB := b.lease(dying, t, s.Connect(t, "producers/p02"), 8)
	publish(ctx, t, issuer, 0, 300)
	until(ctx, t, "300 leases", func() bool { return a.count()+b.count() == 300 })
	if a.count() < 50 || b.count() < 50 {
		t.Errorf("%d and %d", a.count(), b.count())
	}
	stop()
	publish(ctx, t, issuer, 300, 100)
	until(ctx, t, "400 leases", func() bool { return a.count()+b.count() == 400 })
	kill()
	waitB()
	publish(ctx, t, issuer, 400, 100)
	until(ctx, t, "500 leases", func() bool { return a.count()+b.count() == 500 })
	s.Restart(t)
	publish(ctx, t, issuer, 500, 100)
	until(ctx, t, "600 leases", func() bool { return a.count()+b.count() == 600 })
	cancel()
	waitA()
}

// TestDesk_ServesInTurnWhoeverAsksMost: a producer that asks without end gets no
// more than its share, and one that never acknowledges holds nobody up.
func TestDesk_ServesInTurnWhoeverAsksMost(t *testing.T) {
	s := secure(t)
	ctx, cancel := contextWithin(t, 60)
	defer cancel()
	issuer := s.Connect(t, "admin")
	stand(t, s)
	greedy := s.Connect(t, "producers/p01").NC()
	inbox := greedy.NewInbox()
	var mu sync.Mutex
	taken := 0
	ask := func() {
		_ = greedy.PublishRequest(run.LeaseSubject("p01"), inbox, fmt.Appendf(nil, `{"batch":%d}`, 1<<20))
	}
	sub, err := greedy.Subscribe(inbox, func(m *nats.Msg) {
		if len(m.Data) > 0 {
			mu.Lock()
			taken++
			mu.Unlock()
		}
		ask()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for range 10000 {
		ask()
	}
	if err := greedy.Flush(); err != nil {
		t.Fatal(err)
	}
	var honest counter
	wait := honest.lease(ctx, t, s.Connect(t, "producers/p02"), 64)
	for n := 0; honest.count() < 500; n += 50 {
		publish(ctx, t, issuer, n, 50)
		until(ctx, t, "tasks are taken", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return taken+honest.count() >= n+50
		})
		if ctx.Err() != nil {
			t.Fatal("the honest producer gets nothing")
		}
	}
	mu.Lock()
	if taken > 3*honest.count() {
		t.Errorf("greedy got %d, honest %d", taken, honest.count())
	}
	mu.Unlock()
	cancel()
	wait()
}
