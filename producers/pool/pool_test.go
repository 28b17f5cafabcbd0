package pool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/pool"
	"github.com/headrace/headrace/subjects"
)

// engine is an Engine that does what it is told.
type engine struct {
	name  string
	mu    sync.Mutex
	err   error // of every call
	probe error
	took  time.Duration
	calls atomic.Int64
	most  atomic.Int64 // calls at once
	now   atomic.Int64
}

func (e *engine) set(err error) { e.mu.Lock(); e.err = err; e.mu.Unlock() }

func (e *engine) Generate(ctx context.Context, _ producers.Request) (producers.Completion, error) {
	e.calls.Add(1)
	e.most.Store(max(e.most.Load(), e.now.Add(1)))
	defer e.now.Add(-1)
	e.mu.Lock()
	err, took := e.err, e.took
	e.mu.Unlock()
	if took > 0 {
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return producers.Completion{}, ctx.Err()
		}
	}
	return producers.Completion{Engine: e.name}, err
}

func (e *engine) Probe(context.Context) error { e.mu.Lock(); defer e.mu.Unlock(); return e.probe }
func (e *engine) Close() error                { return nil }

// fleet is a pool over engines by name.
type fleet struct {
	*pool.Pool
	engines map[string]*engine
}

func newFleet(cfg pool.Config, names ...string) *fleet {
	f := &fleet{engines: map[string]*engine{}}
	for _, n := range names {
		f.engines[n] = &engine{name: n}
	}
	cfg.Log = zerolog.Nop()
	cfg.Dial = func(name, _ string) (pool.Engine, error) { return f.engines[name], nil }
	f.Pool = pool.New(cfg)
	return f
}

func (f *fleet) live(names ...string) {
	var records []subjects.EngineRecord
	for _, n := range names {
		records = append(records, subjects.EngineRecord{Engine: n, URL: "http://" + n, Ready: true})
	}
	f.Update(records)
	synctest.Wait()
}

func (f *fleet) call(ctx context.Context, session string) (string, error) {
	c, err := f.Generate(ctx, producers.Request{Session: session})
	return c.Engine, err
}

func inBubble(t *testing.T, fn func(t *testing.T)) { t.Helper(); synctest.Test(t, fn) }

func TestPool_SessionsStickAndOnlyMoveWithTheirEngine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{}, "a", "b", "c", "d")
		defer f.Close()
		place := func() map[string]string {
			at := map[string]string{}
			for i := range 400 {
				s := fmt.Sprintf("t%d/0/0", i)
				at[s], _ = f.call(t.Context(), s)
			}
			return at
		}
		f.live("a", "b", "c")
		before := place()
		count := map[string]int{}
		for _, e := range before {
			count[e]++
		}
		for _, e := range []string{"a", "b", "c"} {
			if count[e] < 80 {
				t.Errorf("engine %s has %d of 400 sessions", e, count[e])
			}
		}
		f.live("a", "c")
		for s, e := range place() {
			if before[s] != "b" && e != before[s] {
				t.Errorf("session %s moved from %s to %s when b left", s, before[s], e)
			}
		}
	})
}

func TestPool_DeadEngineLosesItsSessionsNotTheirCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{}, "a", "b")
		defer f.Close()
		f.live("a", "b")
		f.engines["a"].set(producers.ErrUnavailable)
		for i := range 50 {
			if e, err := f.call(t.Context(), fmt.Sprint(i)); err != nil || e != "b" {
				t.Fatalf("call %d: engine %s, error %v", i, e, err)
			}
		}
		if n := f.engines["a"].calls.Load(); n != 1 {
			t.Errorf("the dead engine was called %d times", n)
		}
		f.engines["a"].set(nil)
		time.Sleep(time.Minute)
		seen := map[string]bool{}
		for i := range 50 {
			e, _ := f.call(t.Context(), fmt.Sprint(i))
			seen[e] = true
		}
		if !seen["a"] {
			t.Error("an engine that came back gets no calls")
		}
	})
}

func TestPool_WaitsForTheOnlyEngineToComeBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{}, "a")
		defer f.Close()
		f.live("a")
		f.engines["a"].set(producers.ErrUnavailable)
		time.AfterFunc(30*time.Second, func() { f.engines["a"].set(nil) })
		if e, err := f.call(t.Context(), "s"); err != nil || e != "a" {
			t.Errorf("engine %s, error %v", e, err)
		}
	})
}

func TestPool_LosesPatienceWithTheReason(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{Patience: 10 * time.Second}, "a")
		defer f.Close()
		begun := time.Now()
		if _, err := f.call(t.Context(), "s"); !errors.Is(err, producers.ErrNoEngine) || time.Since(begun) != 10*time.Second {
			t.Errorf("no engine at all: error %v after %v", err, time.Since(begun))
		}
	})
}

func TestPool_DeadlineHoldsWhileItWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{}, "a")
		defer f.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.call(ctx, "s"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

func TestPool_BadAnswersAreAskedForElsewhereOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{}, "a", "b")
		defer f.Close()
		f.live("a", "b")
		bad := fmt.Errorf("%w: no logprobs", producers.ErrBadAnswer)
		f.engines["a"].set(bad)
		for i := range 20 {
			if e, err := f.call(t.Context(), fmt.Sprint(i)); err != nil || e != "b" {
				t.Fatalf("engine %s, error %v", e, err)
			}
		}
		f.engines["b"].set(bad)
		if _, err := f.call(t.Context(), "s"); !errors.Is(err, producers.ErrBadAnswer) {
			t.Errorf("error %v", err)
		}
	})
}

func TestPool_OverloadAndAbortAreWaitedOut(t *testing.T) {
	for _, why := range []error{producers.ErrAborted, &producers.OverloadedError{RetryAfter: 2 * time.Second}} {
		inBubble(t, func(t *testing.T) {
			f := newFleet(pool.Config{}, "a")
			defer f.Close()
			f.live("a")
			f.engines["a"].set(why)
			time.AfterFunc(3*time.Second, func() { f.engines["a"].set(nil) })
			if _, err := f.call(t.Context(), "s"); err != nil {
				t.Errorf("%v: %v", why, err)
			}
		})
	}
}

func TestPool_HopelessRequestsFailAtOnce(t *testing.T) {
	for _, why := range []error{producers.ErrBadRequest, producers.ErrTooLong} {
		inBubble(t, func(t *testing.T) {
			f := newFleet(pool.Config{}, "a", "b")
			defer f.Close()
			f.live("a", "b")
			f.engines["a"].set(why)
			f.engines["b"].set(why)
			if _, err := f.call(t.Context(), "s"); !errors.Is(err, why) || f.engines["a"].calls.Load()+f.engines["b"].calls.Load() != 1 {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestPool_ReadySaysWhyAnEngineWasRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{}, "a", "b")
		defer f.Close()
		f.engines["a"].probe = fmt.Errorf("%w: no logprobs", producers.ErrBadAnswer)
		f.live("a")
		if err := f.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "no logprobs") {
			t.Errorf("error %v", err)
		}
		f.live("a", "b")
		if err := f.Ready(t.Context()); err != nil {
			t.Errorf("with a sound engine beside it: %v", err)
		}
		if e, err := f.call(t.Context(), "s"); e != "b" || err != nil {
			t.Errorf("engine %s, error %v", e, err)
		}
	})
}

func TestPool_EngineThatIsNotUpYetJoinsLater(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{}, "a")
		defer f.Close()
		f.engines["a"].probe = producers.ErrUnavailable
		f.live("a")
		time.AfterFunc(5*time.Second, func() { f.engines["a"].mu.Lock(); f.engines["a"].probe = nil; f.engines["a"].mu.Unlock() })
		if err := f.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestPool_LimitFallsUnderLoadAndRisesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{Limit: pool.LimitConfig{Min: 4, Max: 64}}, "a")
		defer f.Close()
		f.live("a")
		e := f.engines["a"]
		flood := func(calls int) {
			var wait sync.WaitGroup
			for i := range calls {
				wait.Go(func() { _, _ = f.call(t.Context(), fmt.Sprint(i)) })
			}
			wait.Wait()
		}
		e.took = 10 * time.Millisecond
		flood(500)
		if most := e.most.Load(); most > 64 || most < 60 {
			t.Errorf("%d calls at once, the limit is 64", most)
		}
		e.set(&producers.OverloadedError{})
		time.AfterFunc(5*time.Second, func() { e.set(nil) })
		flood(100)
		low := f.Stats().Limit
		if low >= 64 {
			t.Errorf("limit %d after refusals", low)
		}
		flood(20_000)
		if high := f.Stats().Limit; high <= low {
			t.Errorf("limit %d, was %d, after a long time without refusals", high, low)
		}
		if s := f.Stats(); s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("places leak: %+v", s)
		}
	})
}

func TestPool_LimitFallsWhenCallsQueueInTheEngine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{Limit: pool.LimitConfig{Min: 4, Max: 64}}, "a")
		defer f.Close()
		f.live("a")
		e := f.engines["a"]
		for _, took := range []time.Duration{10 * time.Millisecond, 3 * time.Second, 3 * time.Second} {
			e.mu.Lock()
			e.took = took
			e.mu.Unlock()
			var wait sync.WaitGroup
			for i := range 64 {
				wait.Go(func() { _, _ = f.call(t.Context(), fmt.Sprint(i)) })
			}
			wait.Wait()
		}
		if limit := f.Stats().Limit; limit >= 64 || limit < 4 {
			t.Errorf("limit %d", limit)
		}
	})
}

func TestPool_CancelledWaitersLeaveTheLine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFleet(pool.Config{Limit: pool.LimitConfig{Min: 1, Max: 1}}, "a")
		defer f.Close()
		f.live("a")
		f.engines["a"].took = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for i := range 10 {
			wait.Go(func() { _, _ = f.call(ctx, fmt.Sprint(i)) })
		}
		synctest.Wait()
		if s := f.Stats(); s.InFlight != 1 || s.Waiting != 9 {
			t.Errorf("%+v", s)
		}
		cancel()
		wait.Wait()
		if s := f.Stats(); s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("after all gave up: %+v", s)
		}
	})
}
