package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

func task(g string, s, a int) *subjects.Task {
	return &subjects.Task{V: 1, Kind: subjects.Train, Group: subjects.GroupID(g), Slot: subjects.Slot(s), Attempt: subjects.Attempt(a), Environment: "frozenlake", Seed: int64(s)}
}

func leases(t testing.TB, c *bus.Conn) *bus.Leases {
	t.Helper()
	l, err := bus.Tasks(t.Context(), c, run, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func queue(t testing.TB, c *bus.Conn, tk *subjects.Task, fresh bool) {
	t.Helper()
	if ok, err := bus.PublishTask(t.Context(), c, run, tk); err != nil || ok != fresh {
		t.Fatalf("publish task %s: queued %v, %v", tk.ID(), ok, err)
	}
}

func next(t testing.TB, l *bus.Leases) *bus.Lease {
	t.Helper()
	lease, err := l.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestPublishTask_IsIdempotentWhileQueuedAndWhileLeased(t *testing.T) {
	c := ready(t)
	queue(t, c, task("t1", 0, 0), true)
	queue(t, c, task("t1", 0, 0), false)
	queue(t, c, task("t1", 0, 1), true)
	l := leases(t, c)
	a := next(t, l)
	if a.Task.ID() != "t1/0/0" || a.Deliveries != 1 {
		t.Errorf("got %+v", a)
	}
	queue(t, c, task("t1", 0, 0), false)
	if err := a.Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	queue(t, c, task("t1", 0, 0), true)
}

func TestPublishTasks_ManyAreQueuedOnceInOneGo(t *testing.T) {
	c := ready(t)
	var all []*subjects.Task
	for i := range 700 {
		all = append(all, task("t1", i, 0))
	}
	for _, want := range []int{700, 0} {
		if n, err := bus.PublishTasks(t.Context(), c, run, all); err != nil || n != want {
			t.Fatalf("queued %d, %v; want %d", n, err, want)
		}
	}
}

func TestLease_OfADeadProducerComesBackAndALiveOneIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ready(t)
		queue(t, c, task("t1", 0, 0), true)
		l := leases(t, c)
		a := next(t, l)
		for range 12 { // two minutes of an episode
			time.Sleep(bus.LeaseTime / 3)
			if err := a.InProgress(); err != nil {
				t.Fatal(err)
			}
		}
		silent := time.Now() // from here on a is dead
		b := next(t, l)
		if waited := time.Since(silent); b.Task.ID() != "t1/0/0" || b.Deliveries != 2 || waited < bus.LeaseTime-time.Second || waited > bus.LeaseTime+5*time.Second {
			t.Errorf("%s, delivery %d, after %v", b.Task.ID(), b.Deliveries, waited)
		}
		if err := b.Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st, err := bus.StreamState(t.Context(), c, run, subjects.Tasks); err != nil || st.Msgs != 0 {
			t.Errorf("%d tasks left, %v", st.Msgs, err)
		}
	})
}

func TestLease_GivenBackComesAfterItsDelayAndTerminatedNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ready(t)
		queue(t, c, task("t1", 0, 0), true)
		l := leases(t, c)
		if err := next(t, l).Nak(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		b := next(t, l)
		if waited := time.Since(start); waited < 9*time.Second || waited > 12*time.Second {
			t.Errorf("came back after %v", waited)
		}
		if err := b.Term("no such environment"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if lease, err := l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %+v, %v", lease, err)
		}
	})
}

func TestLeases_ThousandsOfCallersEachGetOne(t *testing.T) {
	c := ready(t)
	l := leases(t, c)
	const n = 3000
	got := make(chan string, n)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			lease, err := l.Next(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			got <- lease.Task.ID()
			if err := lease.Ack(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	var all []*subjects.Task
	for i := range n {
		all = append(all, task(fmt.Sprint("t", i/8), i%8, 0))
	}
	if _, err := bus.PublishTasks(t.Context(), c, run, all); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	close(got)
	seen := map[string]bool{}
	for id := range got {
		seen[id] = true
	}
	if len(seen) != n {
		t.Errorf("%d different tasks of %d", len(seen), n)
	}
}

func TestLeases_ACancelledCallerLeavesTheTaskToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ready(t)
		l := leases(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		queue(t, c, task("t1", 0, 0), true) // the request of the cancelled caller is still open
		synctest.Wait()
		start := time.Now()
		if lease := next(t, l); lease.Task.ID() != "t1/0/0" || time.Since(start) > time.Second {
			t.Errorf("%s after %v", lease.Task.ID(), time.Since(start))
		}
	})
}

func TestLeases_ATaskThatCannotBeReadIsBuriedAndTheNextOneComes(t *testing.T) {
	c := ready(t)
	if _, err := bus.Send(t.Context(), c, run.TaskSubject(subjects.Train, "bad", 0, 0), "", nil, []byte("\xc1 no task")); err != nil {
		t.Fatal(err)
	}
	queue(t, c, task("t1", 0, 0), true)
	if lease := next(t, leases(t, c)); lease.Task.ID() != "t1/0/0" {
		t.Errorf("got %s", lease.Task.ID())
	}
	m, err := bus.Last(t.Context(), c, run.StreamName(subjects.DeadLetter), run.DeadLetterSubject("produce"))
	if err != nil || string(m.Data) != "\xc1 no task" || m.Header.Get(subjects.HeaderReason) == "" {
		t.Errorf("dead letter %+v, %v", m, err)
	}
}

func TestLeases_GoOnAfterTheServerRestarts(t *testing.T) {
	s := natstest.NewRestartable(t)
	c := s.Connect(t)
	ensureRun(t, c)
	l := leases(t, c)
	queue(t, c, task("t1", 0, 0), true)
	a := next(t, l)
	s.Restart(t)
	if err := a.Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	queue(t, c, task("t1", 1, 0), true)
	if b := next(t, l); b.Task.ID() != "t1/1/0" {
		t.Errorf("got %s", b.Task.ID())
	}
}

func TestLeases_CloseFailsWhoWaits(t *testing.T) {
	c := ready(t)
	l := leases(t, c)
	done := make(chan error)
	go func() {
		_, err := l.Next(t.Context())
		done <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, bus.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
