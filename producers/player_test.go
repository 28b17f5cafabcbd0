package producers_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/subjects"
)

func TestPlay_RecordsWhatWasSampled(t *testing.T) {
	b := newTable(t, 3)
	calls := &recorder{Policy: b.policy}
	b.policy = calls
	got := b.play(t.Context())
	wants(t, got, subjects.Succeeded, "")
	if got.Reward != 1.5 || got.Components["walk"] != 0.75 {
		t.Errorf("reward %v, components %v", got.Reward, got.Components)
	}
	if len(got.Segments) != 1 || len(got.Turns) != 3 || len(calls.requests) != 3 {
		t.Fatalf("%d segments, %d turns, %d calls", len(got.Segments), len(got.Turns), len(calls.requests))
	}
	tokens := got.Segments[0].Tokens
	for i, turn := range got.Turns {
		prompt := calls.requests[i].IDs
		if !slices.Equal(tokens[:turn.Completion.Start], prompt) {
			t.Errorf("turn %d: the prompt in the trajectory is not the one that was sent", i)
		}
		if !slices.Contains(got.Segments[0].LossMask, turn.Completion) {
			t.Errorf("turn %d: completion %v is not in the loss mask", i, turn.Completion)
		}
	}
	if id := got.ID(); id != "t7/3/1" || got.Engine != "e1" || got.Producer != "p1" || got.Tokenizer != vocabulary().ID() {
		t.Errorf("trajectory %s of engine %s, producer %s", id, got.Engine, got.Producer)
	}
	if n := len(got.Messages); n != 6 || got.Messages[1] != (subjects.Message{Role: "assistant", Content: "go on"}) {
		t.Errorf("%d messages: %+v", n, got.Messages)
	}
	if !b.room.isClosed() {
		t.Error("the environment was not closed")
	}
}

func TestPlay_EveryCallHasItsOwnSeedAndTheSessionIsTheEpisodes(t *testing.T) {
	b := newTable(t, 4)
	calls := &recorder{Policy: b.policy}
	b.policy = calls
	b.play(t.Context())
	seeds := map[uint64]bool{}
	for _, r := range calls.requests {
		seeds[r.Sampling.Seed] = true
		if r.Session != "t7/3/1" || r.Sampling.Seed >= 1<<31 {
			t.Errorf("session %s, seed %d", r.Session, r.Sampling.Seed)
		}
	}
	if len(seeds) != 4 {
		t.Errorf("4 calls had %d seeds", len(seeds))
	}
}

func TestPlay_TurnLimitTruncates(t *testing.T) {
	b := newTable(t, 3)
	b.room.step = func(context.Context, int) (envs.StepResult, error) {
		return envs.StepResult{Truncated: true, Reward: 0.25}, nil
	}
	got := b.play(t.Context())
	wants(t, got, subjects.Truncated, "turn limit")
	if got.Reward != 0.25 {
		t.Errorf("reward %v", got.Reward)
	}
}

func TestPlay_BudgetIsNeverExceeded(t *testing.T) {
	for budget := 10; budget < 60; budget++ {
		b := newTable(t, 1000)
		b.limits.Tokens = budget
		b.policy = policyFunc(func(_ context.Context, r producers.Request) (producers.Completion, error) {
			n := r.Sampling.MaxNewTokens
			if n > 5 {
				n = 5
			}
			c := completion(slices.Repeat([]int32{20}, n), 1)
			c.Finish = producers.FinishLength
			return c, nil
		})
		got := b.play(t.Context())
		wants(t, got, subjects.Overlong, "budget")
		for _, turn := range got.Turns {
			if int(turn.Completion.End) > budget {
				t.Errorf("budget %d: a completion ends at %d", budget, turn.Completion.End)
			}
		}
	}
}

func TestPlay_CutActionEndsItsTurn(t *testing.T) {
	b := newTable(t, 2)
	b.policy = policyFunc(func(_ context.Context, r producers.Request) (producers.Completion, error) {
		c := completion([]int32{20, 21}, 1)
		c.Finish = producers.FinishLength
		return c, nil
	})
	got := b.play(t.Context())
	wants(t, got, subjects.Succeeded, "")
	end, ok := vocabulary().Special("<|im_end|>")
	after := got.Turns[0].Completion.End
	if !ok || got.Segments[0].Tokens[after] != end || got.Segments[0].LossMask[0].End != after {
		t.Error("a cut action is not followed by the end of its turn, outside the loss")
	}
}

// forgetful shows only the latest observation.
type forgetful struct{}

func (forgetful) Observe(obs envs.Observation) producers.View {
	return producers.View{Messages: obs.Messages, Whole: true}
}
func (forgetful) Act(text string) envs.Action { return envs.Action{Text: text} }

func TestPlay_RewrittenHistoryForks(t *testing.T) {
	b := newTable(t, 3)
	b.agent = func() producers.Agent { return forgetful{} }
	got := b.play(t.Context())
	wants(t, got, subjects.Succeeded, "")
	if len(got.Segments) != 3 || got.Segments[2].Parent != 1 || got.Segments[2].Shared == 0 {
		t.Errorf("segments %+v", got.Segments)
	}
	if b.player.Stats().Forks.Load() != 2 {
		t.Errorf("%d forks counted", b.player.Stats().Forks.Load())
	}
}

func TestPlay_FaultsAreAStatusNeverAReward(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		break_ func(*table)
		reason string
	}{
		"reset errs":    {func(b *table) { b.room.reset = func(context.Context) error { return boom } }, "environment reset: boom"},
		"reset panics":  {func(b *table) { b.room.reset = func(context.Context) error { panic("ouch") } }, "panic: ouch"},
		"step errs":     {func(b *table) { b.room.step = fails(2, boom) }, "turn 2: environment step: boom"},
		"step panics":   {func(b *table) { b.room.step = fails(2, nil) }, "panic: ouch"},
		"reward is NaN": {func(b *table) { b.room.step = pays(math.NaN()) }, "reward is NaN"},
		"reward is inf": {func(b *table) { b.room.step = pays(math.Inf(1)) }, "reward is +Inf"},
		"unknown room":  {func(b *table) { b.task.Environment = "attic" }, `no environment "attic"`},
		"engine fails":  {func(b *table) { b.policy = broken(func(*producers.Completion) error { return producers.ErrNoEngine }) }, "no live engine"},
		"no logprobs": {func(b *table) {
			b.policy = broken(func(c *producers.Completion) error { c.Logprobs = nil; return nil })
		}, "0 logprobs"},
		"id out of range": {func(b *table) {
			b.policy = broken(func(c *producers.Completion) error { c.IDs[0] = 1 << 20; return nil })
		}, "id 1048576"},
		"nothing sampled":   {func(b *table) { b.policy = broken(func(c *producers.Completion) error { c.IDs = nil; return nil }) }, "empty completion"},
		"too much sampled":  {func(b *table) { b.task.Sampling.MaxNewTokens = 1 }, "tokens where 1 were asked for"},
		"policy panics":     {func(b *table) { b.policy = broken(func(*producers.Completion) error { panic("ouch") }) }, "panic: ouch"},
		"agent panics":      {func(b *table) { b.agent = func() producers.Agent { return nil } }, "agent: panic"},
		"agent begins late": {func(b *table) { b.agent = func() producers.Agent { return late{} } }, "not whole"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTable(t, 3)
			c.break_(b)
			got := b.play(t.Context())
			wants(t, got, subjects.Failed, c.reason)
			if b.player.Stats().Failed.Load() != 1 || b.player.Stats().Live.Load() != 0 {
				t.Error("the failure was not counted")
			}
		})
	}
}

type late struct{ forgetful }

func (late) Observe(obs envs.Observation) producers.View {
	return producers.View{Messages: obs.Messages}
}

// fails makes a step that errs, or panics when err is nil, on a turn.
func fails(turn int, err error) func(context.Context, int) (envs.StepResult, error) {
	return func(_ context.Context, n int) (envs.StepResult, error) {
		if n < turn {
			return envs.StepResult{Observation: observe("on"), Reward: 1}, nil
		}
		if err == nil {
			panic("ouch")
		}
		return envs.StepResult{}, err
	}
}

func pays(reward float64) func(context.Context, int) (envs.StepResult, error) {
	return func(context.Context, int) (envs.StepResult, error) {
		return envs.StepResult{Reward: reward, Terminated: true}, nil
	}
}

// broken is a policy whose completions are spoilt.
func broken(spoil func(*producers.Completion) error) policyFunc {
	return func(ctx context.Context, r producers.Request) (producers.Completion, error) {
		c, err := says("go on")(ctx, r)
		if err == nil {
			err = spoil(&c)
		}
		return c, err
	}
}

func TestPlay_CancelledIsAborted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := newTable(t, 3)
	b.room.step = func(ctx context.Context, _ int) (envs.StepResult, error) {
		cancel()
		<-ctx.Done()
		return envs.StepResult{}, ctx.Err()
	}
	wants(t, b.play(ctx), subjects.Aborted, "cancelled")
	if !b.room.isClosed() {
		t.Error("the environment was not closed")
	}
}

func TestPlay_ThousandsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, 1)
		var wait sync.WaitGroup
		gate := make(chan struct{})
		b.policy = policyFunc(func(ctx context.Context, r producers.Request) (producers.Completion, error) {
			<-gate
			return says("go on")(ctx, r)
		})
		b.rooms = func() envs.Environment {
			r := newRoom(1)
			r.step = pays(1)
			return r
		}
		players := b.open()
		for i := range 2000 {
			task := b.task
			task.Slot = subjects.Slot(i)
			wait.Go(func() {
				if got := players.Play(t.Context(), &task); got.Status != subjects.Succeeded {
					t.Errorf("slot %d: %s", task.Slot, got.Reason)
				}
			})
		}
		synctest.Wait()
		if live := players.Stats().Live.Load(); live != 2000 {
			t.Errorf("%d live", live)
		}
		close(gate)
		wait.Wait()
	})
}
