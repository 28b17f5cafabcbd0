package producers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/producers/ledger"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

// episode is one episode while it is played, from one goroutine.
type episode struct {
	*Player
	task   *subjects.Task
	setup  Setup
	policy Policy
	agent  Agent
	env    envs.Environment // nil before it is made and after it is lost
	ledger *ledger.Ledger
	out    *subjects.Trajectory
	reward float64
	parts  map[string]float64
	spans  spans.Episode
}

func (p *Player) newEpisode(task *subjects.Task) *episode {
	return &episode{Player: p, task: task, setup: p.cfg.Environments[task.Environment], ledger: ledger.New(p.vocab),
		out: &subjects.Trajectory{
			Kind: task.Kind, Group: task.Group, Slot: task.Slot, Attempt: task.Attempt, Round: task.Round,
			Environment: task.Environment, Task: task.Data, Seed: task.Seed, Producer: p.cfg.Producer,
			Tokenizer: p.cfg.Tokenizer.ID(), Sampling: task.Sampling, Started: p.cfg.Spans.Now(), Token: task.Token,
		}}
}

// run plays from reset to close. The error explains every status but succeeded.
func (e *episode) run(parent context.Context) (subjects.Status, error) {
	ctx, cancel := limited(parent, "the episode", e.cfg.Limits.Episode)
	defer cancel()
	status, err := e.turns(ctx)
	e.close(parent)
	if status == subjects.Failed && parent.Err() != nil {
		return subjects.Aborted, fmt.Errorf("cancelled: %w", err)
	}
	return status, err
}

func (e *episode) turns(ctx context.Context) (subjects.Status, error) {
	obs, err := e.reset(ctx)
	if err != nil {
		return subjects.Failed, err
	}
	for {
		if ctx.Err() != nil { // a policy or environment need not have looked
			return subjects.Failed, context.Cause(ctx)
		}
		status, next, err := e.turn(ctx, obs)
		if err != nil && status == subjects.Failed {
			err = fmt.Errorf("turn %d: %w", len(e.out.Turns), err)
		}
		if status != "" {
			return status, err
		}
		obs = next
	}
}

// turn shows an observation, samples an action and applies it. An empty status
// means that the episode goes on.
func (e *episode) turn(ctx context.Context, obs envs.Observation) (subjects.Status, envs.Observation, error) {
	prompt, err := e.show(obs)
	if err != nil {
		return subjects.Failed, obs, err
	}
	left := e.cfg.Limits.Tokens - e.ledger.Len()
	if left < 1 {
		return subjects.Overlong, obs, fmt.Errorf("the budget of %d tokens was full before turn %d", e.cfg.Limits.Tokens, len(e.out.Turns))
	}
	turn := subjects.Turn{Segment: e.ledger.Index(), Prompt: prompt, Queued: e.cfg.Spans.Now()}
	request := e.request(left)
	text, err := e.generate(ctx, request, &turn)
	if err != nil {
		return subjects.Failed, obs, err
	}
	if turn.Finish == FinishLength && request.Sampling.MaxNewTokens == left {
		e.record(&turn)
		return subjects.Overlong, obs, fmt.Errorf("the budget of %d tokens ran out in turn %d", e.cfg.Limits.Tokens, len(e.out.Turns)-1)
	}
	r, err := e.step(ctx, text, &turn)
	e.record(&turn)
	switch {
	case err != nil:
		return subjects.Failed, obs, err
	case r.Terminated:
		return subjects.Succeeded, obs, nil
	case r.Truncated:
		return subjects.Truncated, obs, fmt.Errorf("turn limit reached after %d turns", len(e.out.Turns))
	}
	return "", r.Observation, nil
}

// show brings the observation into the ledger as the agent wants it seen.
func (e *episode) show(obs envs.Observation) (subjects.Span, error) {
	view, err := protect(func() (View, error) { return e.agent.Observe(obs), nil })
	if err != nil {
		return subjects.Span{}, fmt.Errorf("agent: %w", err)
	}
	for _, m := range view.Messages {
		e.out.Messages = append(e.out.Messages, subjects.Message{Role: m.Role, Content: m.Content, Name: m.Name})
	}
	if view.Whole {
		return e.ledger.Prompt(e.template().Prompt(view.Messages, true))
	}
	if e.ledger.Len() == 0 {
		return subjects.Span{}, errors.New("agent: the first view is not whole")
	}
	if tokens := e.ledger.Tokens(); !slices.Contains(e.stops, tokens[len(tokens)-1]) {
		if _, err := e.ledger.Append(e.stops[:1]); err != nil { // the action was cut: end its turn
			return subjects.Span{}, err
		}
	}
	return e.ledger.Append(e.template().Extend(view.Messages))
}

func (e *episode) request(left int) Request {
	sampling := e.task.Sampling
	if sampling.MaxNewTokens <= 0 || sampling.MaxNewTokens > left {
		sampling.MaxNewTokens = left
	}
	sampling.Seed = callSeed(sampling.Seed, len(e.out.Turns))
	return Request{Session: e.task.ID(), IDs: e.ledger.Tokens(), Sampling: sampling, StopIDs: e.stops}
}

// shortWait is what a call takes that did not wait.
const shortWait = 20 * time.Microsecond

// callSeed gives each call of an episode its own seed, of 31 bits: all that
// every engine takes.
func callSeed(seed uint64, turn int) uint64 {
	return envs.NewRand(int64(seed), uint64(turn)).Uint64() >> 33
}

// generate samples a completion and returns its text, control tokens removed.
func (e *episode) generate(parent context.Context, r Request, turn *subjects.Turn) (string, error) {
	ctx, cancel := limited(parent, "the model call", e.cfg.Limits.Call)
	defer cancel()
	c, err := protect(func() (Completion, error) { return e.policy.Generate(ctx, r) })
	turn.Generated = e.cfg.Spans.Now()
	e.stats.EngineNanos.Add(turn.Generated - turn.Queued)
	if err != nil {
		return "", faultOf(engine, "generate: %w", caused(ctx, err))
	}
	if len(c.IDs) > r.Sampling.MaxNewTokens {
		return "", faultOf(engine, "generate: %w: %d tokens where %d were asked for", ErrBadAnswer, len(c.IDs), r.Sampling.MaxNewTokens)
	}
	if turn.Completion, err = e.ledger.Complete(c.IDs, c.Logprobs, c.Versions); err != nil {
		return "", faultOf(engine, "generate: %w", err)
	}
	if c.Waited > shortWait {
		e.spans.Record(e.names.queue, turn.Queued, turn.Queued+int64(c.Waited))
	}
	turn.Cached, turn.Finish, e.out.Engine = int32(c.Cached), c.Finish, c.Engine
	e.stats.Calls.Add(1)
	e.stats.PromptTokens.Add(int64(len(r.IDs)))
	e.stats.CachedTokens.Add(int64(c.Cached))
	e.stats.SampledTokens.Add(int64(len(c.IDs)))
	ids := c.IDs
	if slices.Contains(e.stops, ids[len(ids)-1]) {
		ids = ids[:len(ids)-1]
	}
	text := e.cfg.Tokenizer.Decode(ids)
	e.out.Messages = append(e.out.Messages, subjects.Message{Role: envs.RoleAssistant, Content: text})
	return text, nil
}

// reset makes agent and environment and starts the episode.
func (e *episode) template() tokenizer.Template {
	if e.setup.Template != nil {
		return e.setup.Template
	}
	return e.cfg.Template
}

func (e *episode) reset(parent context.Context) (envs.Observation, error) {
	if e.setup.New == nil {
		return envs.Observation{}, fmt.Errorf("this producer has no environment %q", e.task.Environment)
	}
	agent, err := protect(func() (Agent, error) { return e.setup.Agent(), nil })
	if err != nil {
		return envs.Observation{}, fmt.Errorf("agent: %w", err)
	}
	e.agent = agent
	type started struct {
		env envs.Environment
		obs envs.Observation
	}
	ctx, cancel := limited(parent, "environment reset", e.cfg.Limits.Step)
	defer cancel()
	begun := time.Now()
	task := envs.Task{Env: e.task.Environment, Seed: e.task.Seed, Rollout: int64(e.task.Sampling.Seed), Data: e.task.Data, MaxTurns: e.setup.MaxTurns,
		HeldOut: e.task.Kind == subjects.Eval}
	s, _, err := guard(ctx, e.cfg.Limits.Grace, &e.stats.Leaked, func(s started) { closeLate(s.env) }, func() (s started, err error) {
		if s.env, err = e.setup.New(); err == nil {
			s.obs, err = s.env.Reset(ctx, task)
		}
		return s, err
	})
	e.stats.EnvNanos.Add(int64(time.Since(begun)))
	e.env = s.env
	if err != nil {
		return s.obs, faultOf(environment, "environment reset: %w", err)
	}
	return s.obs, nil
}

// step applies the completion and adds up the reward.
func (e *episode) step(parent context.Context, text string, turn *subjects.Turn) (envs.StepResult, error) {
	action, err := protect(func() (envs.Action, error) { return e.agent.Act(text), nil })
	if err != nil {
		return envs.StepResult{}, fmt.Errorf("agent: %w", err)
	}
	ctx, cancel := limited(parent, "environment step", e.cfg.Limits.Step)
	defer cancel()
	env := e.env
	e.spans.Record(e.names.parse, turn.Generated, e.spans.Now())
	r, came, err := guard(ctx, e.cfg.Limits.Grace, &e.stats.Leaked, func(envs.StepResult) { closeLate(env) }, func() (envs.StepResult, error) {
		return env.Step(ctx, action)
	})
	if !came {
		e.env = nil
	}
	turn.Stepped = e.cfg.Spans.Now()
	e.stats.EnvNanos.Add(turn.Stepped - turn.Generated)
	if err != nil {
		return r, faultOf(environment, "environment step: %w", err)
	}
	if math.IsNaN(r.Reward) || math.IsInf(r.Reward, 0) {
		return r, faultOf(environment, "environment step: reward is %v", r.Reward)
	}
	turn.Reward = r.Reward
	e.reward += r.Reward
	for name, v := range r.Components {
		if e.parts == nil {
			e.parts = map[string]float64{}
		}
		e.parts[name] += v
	}
	return r, nil
}

func (e *episode) record(turn *subjects.Turn) {
	if turn.Stepped == 0 {
		turn.Stepped = turn.Generated
	}
	e.out.Turns = append(e.out.Turns, *turn)
	e.stats.Steps.Add(1)
}

// close frees the environment, within the limits of a step.
func (e *episode) close(parent context.Context) {
	env := e.env
	if env == nil {
		return
	}
	ctx, cancel := limited(context.WithoutCancel(parent), "environment close", e.cfg.Limits.Step)
	defer cancel()
	_, _, err := guard(ctx, e.cfg.Limits.Grace, &e.stats.Leaked, func(struct{}) {}, func() (struct{}, error) {
		return struct{}{}, env.Close()
	})
	if err != nil {
		e.cfg.Log.Warn().Err(err).Str("environment", e.task.Environment).Str("trajectory", e.task.ID()).Msg("environment does not close")
	}
}

// closeLate closes an environment whose call came back after it was given up.
func closeLate(env envs.Environment) {
	if env != nil {
		_, _ = protect(func() (struct{}, error) { return struct{}{}, env.Close() })
	}
}

// finish completes the trajectory. A failed one carries no reward.
func (e *episode) finish(status subjects.Status, err error) *subjects.Trajectory {
	t := e.out
	t.Status = status
	t.Finished = e.cfg.Spans.Now()
	t.Segments = e.ledger.Segments()
	if err != nil {
		t.Reason = oneLine(err.Error())
	}
	if status.Trained() {
		t.Reward, t.Components = e.reward, e.parts
	}
	return t
}

const maxReason = 500

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "") + " ..."
	}
	return s
}
