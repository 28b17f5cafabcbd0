// Package envtest is the conformance suite of environments: every one, built
// in or yours, passes it before an episode engine may drive it.
package envtest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/headrace/headrace/envs"
)

// Options adapt the suite to an environment.
type Options struct {
	// Params are given to Spec.New.
	Params json.RawMessage
	// Act returns some plausible action, drawn from rng alone. Left out, the
	// environment's Demonstrator acts with skill 0.5.
	Act func(rng *rand.Rand) envs.Action
	// MaxTurns bounds the steps until an episode must have ended; default
	// 10,000.
	MaxTurns int
}

// suite is one run on one Spec.
type suite struct {
	spec envs.Spec
	opts Options
}

// Run checks the contract of [envs.Environment] and of [envs.Spec]. Run the
// tests with -race: the suite plays many instances at once.
func Run(t *testing.T, spec envs.Spec, opts Options) {
	if opts.MaxTurns == 0 {
		opts.MaxTurns = 10_000
	}
	s := suite{spec, opts}
	for _, check := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"SpecIsComplete", s.specIsComplete},
		{"UnknownParameterIsRefused", s.unknownParameterIsRefused},
		{"EpisodesRepeat", s.episodesRepeat},
		{"ResetStartsOver", s.resetStartsOver},
		{"StepNeedsAnEpisode", s.stepNeedsAnEpisode},
		{"CancelledContextChangesNothing", s.cancelledContextChangesNothing},
		{"CloseIsFinalAndIdempotent", s.closeIsFinalAndIdempotent},
		{"TurnLimitTruncates", s.turnLimitTruncates},
		{"NonsenseIsNoError", s.nonsenseIsNoError},
		{"InstancesRunAtOnce", s.instancesRunAtOnce},
	} {
		t.Run(check.name, check.run)
	}
}

func (s suite) open(t *testing.T) envs.Environment {
	t.Helper()
	env, err := s.spec.New(s.opts.Params)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	t.Cleanup(func() { _ = env.Close() })
	return env
}

func (s suite) reset(t *testing.T, env envs.Environment, seed int64) envs.Observation {
	t.Helper()
	obs, err := env.Reset(context.Background(), s.task(seed))
	if err != nil {
		t.Fatalf("reset: %v", err)
	}
	return obs
}

func (s suite) task(seed int64) envs.Task { return envs.Task{Env: s.spec.Name, Seed: seed, Rollout: 1} }

func (s suite) act(env envs.Environment, rng *rand.Rand) (envs.Action, error) {
	if s.opts.Act != nil {
		return s.opts.Act(rng), nil
	}
	d, ok := env.(envs.Demonstrator)
	if !ok {
		return envs.Action{}, errors.New("environment is no Demonstrator: set Options.Act")
	}
	return d.Demonstrate(rng, 0.5), nil
}

// episode plays the rest of an episode and returns all that was seen, as JSON.
func (s suite) episode(env envs.Environment, rng *rand.Rand) (string, error) {
	var seen strings.Builder
	for range s.opts.MaxTurns {
		action, err := s.act(env, rng)
		if err != nil {
			return "", err
		}
		r, err := env.Step(context.Background(), action)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal([]any{action, r})
		if err != nil {
			return "", err
		}
		seen.Write(text)
		if err := sound(r); err != nil {
			return "", err
		}
		if r.Done() {
			return seen.String(), nil
		}
	}
	return "", errors.New("episode does not end")
}

// sound checks a single result.
func sound(r envs.StepResult) error {
	if math.IsNaN(r.Reward) || math.IsInf(r.Reward, 0) {
		return errors.New("reward is not finite")
	}
	if r.Terminated && r.Truncated {
		return errors.New("step both terminated and truncated")
	}
	if r.Done() {
		return nil
	}
	return shown(r.Observation)
}

// shown checks an observation that an agent is to answer.
func shown(obs envs.Observation) error {
	if len(obs.Messages) == 0 {
		return errors.New("observation has no message")
	}
	for _, m := range obs.Messages {
		if m.Role != envs.RoleUser && m.Role != envs.RoleTool {
			return errors.New("observation has a message of role " + m.Role)
		}
		if m.Content == "" {
			return errors.New("observation has an empty message")
		}
	}
	return nil
}

func (s suite) specIsComplete(t *testing.T) {
	if s.spec.Name == "" || s.spec.Doc == "" || s.spec.MaxActionTokens < 1 {
		t.Error("spec lacks name, doc or max action tokens")
	}
	seen := map[string]bool{}
	for _, w := range s.spec.Words {
		if w == "" || seen[w] {
			t.Errorf("word %q is empty or twice in the vocabulary", w)
		}
		seen[w] = true
	}
	for _, p := range s.spec.Params {
		if p.Name == "" || p.Type == "" || p.Default == "" || p.Doc == "" {
			t.Errorf("parameter is not documented: %+v", p)
		}
	}
}

func (s suite) unknownParameterIsRefused(t *testing.T) {
	_, err := s.spec.New(json.RawMessage(`{"no_such_parameter":1}`))
	if err == nil {
		t.Fatal("an unknown parameter is taken")
	}
	if !strings.Contains(err.Error(), "no_such_parameter") {
		t.Errorf("error does not name the parameter: %v", err)
	}
	for _, p := range s.spec.Params {
		if !strings.Contains(err.Error(), p.Name) {
			t.Errorf("error does not list %s: %v", p.Name, err)
		}
	}
}

func (s suite) episodesRepeat(t *testing.T) {
	a, b := s.open(t), s.open(t)
	for seed := range int64(10) {
		first := s.reset(t, a, seed)
		if err := shown(first); err != nil {
			t.Fatal(err)
		}
		if again := s.reset(t, b, seed); first.Messages[0] != again.Messages[0] {
			t.Fatalf("seed %d: two instances start differently", seed)
		}
		one, err := s.episode(a, envs.NewRand(seed, 1))
		if err != nil {
			t.Fatal(err)
		}
		two, err := s.episode(b, envs.NewRand(seed, 1))
		if err != nil {
			t.Fatal(err)
		}
		if one != two {
			t.Fatalf("seed %d: the same actions lead elsewhere:\n%s\n%s", seed, one, two)
		}
	}
}

func (s suite) resetStartsOver(t *testing.T) {
	env := s.open(t)
	first := s.reset(t, env, 4)
	action, err := s.act(env, envs.NewRand(4, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Step(context.Background(), action); err != nil {
		t.Fatal(err)
	}
	if again := s.reset(t, env, 4); again.Messages[0] != first.Messages[0] {
		t.Error("reset in the middle of an episode does not start over")
	}
	if _, err := s.episode(env, envs.NewRand(4, 1)); err != nil {
		t.Error(err)
	}
}

func (s suite) stepNeedsAnEpisode(t *testing.T) {
	env := s.open(t)
	if _, err := env.Step(context.Background(), envs.Action{}); !errors.Is(err, envs.ErrNotReset) {
		t.Errorf("step before reset: %v, want ErrNotReset", err)
	}
	s.reset(t, env, 1)
	if _, err := s.episode(env, envs.NewRand(1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Step(context.Background(), envs.Action{}); !errors.Is(err, envs.ErrDone) {
		t.Errorf("step after the end: %v, want ErrDone", err)
	}
}

func (s suite) cancelledContextChangesNothing(t *testing.T) {
	env, twin := s.open(t), s.open(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := env.Reset(ctx, s.task(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("reset: %v, want context.Canceled", err)
	}
	s.reset(t, env, 1)
	s.reset(t, twin, 1)
	if _, err := env.Step(ctx, envs.Action{}); !errors.Is(err, context.Canceled) {
		t.Errorf("step: %v, want context.Canceled", err)
	}
	one, err := s.episode(env, envs.NewRand(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.episode(twin, envs.NewRand(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if one != two {
		t.Error("a cancelled step changed the episode")
	}
}

func (s suite) closeIsFinalAndIdempotent(t *testing.T) {
	env := s.open(t)
	s.reset(t, env, 1)
	for range 2 {
		if err := env.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := env.Reset(context.Background(), s.task(1)); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("reset after close: %v, want ErrClosed", err)
	}
	if _, err := env.Step(context.Background(), envs.Action{}); !errors.Is(err, envs.ErrClosed) {
		t.Errorf("step after close: %v, want ErrClosed", err)
	}
}

func (s suite) turnLimitTruncates(t *testing.T) {
	env := s.open(t)
	task := s.task(1)
	task.MaxTurns = 1
	for seed := range int64(10) {
		task.Seed = seed
		if _, err := env.Reset(context.Background(), task); err != nil {
			t.Fatal(err)
		}
		action, err := s.act(env, envs.NewRand(seed, 1))
		if err != nil {
			t.Fatal(err)
		}
		r, err := env.Step(context.Background(), action)
		if err != nil {
			t.Fatal(err)
		}
		if r.Truncated == r.Terminated {
			t.Errorf("seed %d: after the only turn terminated %v, truncated %v", seed, r.Terminated, r.Truncated)
		}
	}
}

func (s suite) nonsenseIsNoError(t *testing.T) {
	env := s.open(t)
	for _, action := range []envs.Action{
		{}, {Text: "\x00\xff<|im_end|>"}, {Text: strings.Repeat("up ", 10_000), Final: true},
		{ToolCalls: []envs.ToolCall{{}}},
		{ToolCalls: []envs.ToolCall{{Name: "no such tool", Arguments: json.RawMessage(`{`)}}},
		{ToolCalls: make([]envs.ToolCall, 1000), Final: true},
	} {
		s.reset(t, env, 1)
		r, err := env.Step(context.Background(), action)
		if err == nil {
			err = sound(r)
		}
		if err != nil {
			t.Errorf("action %.60q: %v", action.Text, err)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	}
}

func (s suite) instancesRunAtOnce(t *testing.T) {
	env := s.open(t)
	var alone [16]string
	for i := range alone {
		s.reset(t, env, int64(i))
		var err error
		if alone[i], err = s.episode(env, envs.NewRand(int64(i), 1)); err != nil {
			t.Fatal(err)
		}
	}
	var together [16]string
	var wait sync.WaitGroup
	for i := range together {
		env := s.open(t)
		wait.Go(func() {
			if _, err := env.Reset(context.Background(), s.task(int64(i))); err != nil {
				t.Error(err)
				return
			}
			var err error
			if together[i], err = s.episode(env, envs.NewRand(int64(i), 1)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if alone != together {
		t.Error("episodes played at once differ from those played alone")
	}
}
