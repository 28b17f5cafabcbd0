package producers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/subjects"
)

var brief = producers.Limits{Call: 5 * time.Second, Step: 3 * time.Second, Episode: 20 * time.Second, Grace: time.Second}

// hang blocks until the door opens, whatever the context says.
func hang(door chan struct{}) func(context.Context, int) (envs.StepResult, error) {
	return func(context.Context, int) (envs.StepResult, error) {
		<-door
		return envs.StepResult{Terminated: true, Reward: 1}, nil
	}
}

func TestLimits_HungStepIsLeftBehindCountedAndClosedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, 3)
		b.limits = brief
		door := make(chan struct{})
		b.room.step = hang(door)
		begun := time.Now()
		got := b.play(t.Context())
		wants(t, got, subjects.Failed, "environment step took longer than allowed (3s)")
		if took := time.Since(begun); took != 4*time.Second {
			t.Errorf("the episode took %v, want step and grace", took)
		}
		if n := b.player.Stats().Leaked.Load(); n != 1 {
			t.Errorf("%d leaked", n)
		}
		if len(got.Turns) != 1 || len(got.Segments) != 1 {
			t.Errorf("what was sampled is gone: %d turns", len(got.Turns))
		}
		if b.room.isClosed() {
			t.Error("closed while a call was inside")
		}
		close(door)
		synctest.Wait()
		if n := b.player.Stats().Leaked.Load(); n != 0 || !b.room.isClosed() {
			t.Errorf("after it returned %d leaked, closed %v", n, b.room.isClosed())
		}
	})
}

func TestLimits_HungResetAndCloseEndToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, 3)
		b.limits = brief
		door := make(chan struct{})
		b.room.reset = func(context.Context) error { <-door; return nil }
		wants(t, b.play(t.Context()), subjects.Failed, "environment reset took longer than allowed")
		close(door)
		synctest.Wait()
		if b.player.Stats().Leaked.Load() != 0 {
			t.Error("the call came back and still counts as leaked")
		}
	})
}

func TestLimits_StepThatHonoursItsContextIsNotLeaked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, 3)
		b.limits = brief
		b.room.step = func(ctx context.Context, _ int) (envs.StepResult, error) {
			<-ctx.Done()
			return envs.StepResult{}, ctx.Err()
		}
		wants(t, b.play(t.Context()), subjects.Failed, "environment step took longer than allowed (3s)")
		if b.player.Stats().Leaked.Load() != 0 || !b.room.isClosed() {
			t.Error("leaked, or not closed")
		}
	})
}

func TestLimits_CallIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, 3)
		b.limits = brief
		b.policy = policyFunc(func(ctx context.Context, _ producers.Request) (producers.Completion, error) {
			<-ctx.Done()
			return producers.Completion{}, ctx.Err()
		})
		wants(t, b.play(t.Context()), subjects.Failed, "the model call took longer than allowed (5s)")
	})
}

func TestLimits_EpisodeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, 1<<30)
		b.limits = brief
		b.room.step = func(ctx context.Context, _ int) (envs.StepResult, error) {
			time.Sleep(1500 * time.Millisecond)
			return envs.StepResult{Observation: observe("on")}, nil
		}
		begun := time.Now()
		wants(t, b.play(t.Context()), subjects.Failed, "the episode took longer than allowed (20s)")
		if took := time.Since(begun); took != 21*time.Second && took != 20*time.Second {
			t.Errorf("took %v", took)
		}
		time.Sleep(time.Second) // the last step, past its grace or not, ends
	})
}

func TestLimits_HungStepEndsWithACancelledEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, 3)
		b.limits = brief
		door := make(chan struct{})
		defer close(door)
		b.room.step = hang(door)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("the lease is gone")) })
		wants(t, b.play(ctx), subjects.Aborted, "the lease is gone")
	})
}
