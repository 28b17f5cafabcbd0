package producers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/agents"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

// room is an environment that counts turns and misbehaves as it is told.
type room struct {
	turns     int // after which it terminates
	taken     int
	reset     func(context.Context) error
	step      func(ctx context.Context, turn int) (envs.StepResult, error)
	closed    chan struct{}
	closeOnce sync.Once
}

func newRoom(turns int) *room { return &room{turns: turns, closed: make(chan struct{})} }

func observe(format string, args ...any) envs.Observation {
	return envs.Observation{Messages: []envs.Message{{Role: envs.RoleUser, Content: fmt.Sprintf(format, args...)}}}
}

func (r *room) Reset(ctx context.Context, _ envs.Task) (envs.Observation, error) {
	if r.reset != nil {
		return observe("begin"), r.reset(ctx)
	}
	return observe("begin"), nil
}

func (r *room) Step(ctx context.Context, _ envs.Action) (envs.StepResult, error) {
	r.taken++
	if r.step != nil {
		return r.step(ctx, r.taken)
	}
	return envs.StepResult{Observation: observe("turn %d", r.taken), Reward: 0.5, Terminated: r.taken == r.turns,
		Components: map[string]float64{"walk": 0.25}}, nil
}

func (r *room) Close() error {
	r.closeOnce.Do(func() { close(r.closed) })
	return nil
}

func (r *room) isClosed() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// policyFunc is a Policy that is one function.
type policyFunc func(context.Context, producers.Request) (producers.Completion, error)

func (f policyFunc) Generate(ctx context.Context, r producers.Request) (producers.Completion, error) {
	return f(ctx, r)
}

var vocabulary = sync.OnceValue(func() *tokenizer.Words {
	words, err := tokenizer.NewWords("begin", "turn ", "go on")
	if err != nil {
		panic(err)
	}
	return words
})

// says answers every call with a text and the end of the turn.
func says(text string) policyFunc {
	return func(_ context.Context, r producers.Request) (producers.Completion, error) {
		return completion(append(vocabulary().Encode(text), r.StopIDs[0]), 4), nil
	}
}

// completion gives ids plausible logprobs and one version.
func completion(ids []int32, version subjects.PolicyVersion) producers.Completion {
	c := producers.Completion{IDs: ids, Finish: producers.FinishStop, Engine: "e1", Cached: 1}
	for i := range ids {
		c.Logprobs = append(c.Logprobs, -float32(i)-1)
	}
	c.Versions = []subjects.VersionSpan{{End: int32(len(ids)), Version: version}}
	return c
}

// table is a player with one environment, "room".
type table struct {
	t      *testing.T
	room   *room
	rooms  func() envs.Environment // another for every episode, instead of room
	policy producers.Policy
	agent  func() producers.Agent
	limits producers.Limits
	task   subjects.Task
	log    zerolog.Logger
	player *producers.Player
}

func newTable(t *testing.T, turns int) *table {
	conversation, err := agents.New(agents.Conversation, "")
	if err != nil {
		t.Fatal(err)
	}
	return &table{t: t, room: newRoom(turns), policy: says("go on"), agent: conversation, log: zerolog.Nop(),
		task: subjects.Task{Kind: subjects.Train, Group: "t7", Slot: 3, Attempt: 1, Environment: "room", Seed: 11,
			Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8, Seed: 99}}}
}

func (b *table) open() *producers.Player {
	b.t.Helper()
	template, err := tokenizer.NewChatML(vocabulary())
	if err != nil {
		b.t.Fatal(err)
	}
	b.player, err = producers.New(producers.Config{Producer: "p1", Tokenizer: vocabulary(), Template: template, Policy: b.policy,
		Environments: map[string]producers.Setup{"room": {New: b.furnish, Agent: b.agent}},
		Limits:       b.limits, Log: b.log})
	if err != nil {
		b.t.Fatal(err)
	}
	return b.player
}

func (b *table) furnish() (envs.Environment, error) {
	if b.rooms != nil {
		return b.rooms(), nil
	}
	return b.room, nil
}

// play plays one episode and checks what holds of every trajectory.
func (b *table) play(ctx context.Context) *subjects.Trajectory {
	b.t.Helper()
	trajectory := b.open().Play(ctx, &b.task)
	sound(b.t, trajectory)
	return trajectory
}

func sound(t *testing.T, trajectory *subjects.Trajectory) {
	t.Helper()
	if err := trajectory.Check(vocabulary().VocabSize()); err != nil {
		t.Errorf("trajectory is not sound: %v", err)
	}
	if !trajectory.Status.Trained() && trajectory.Reward != 0 {
		t.Errorf("%s trajectory has reward %v", trajectory.Status, trajectory.Reward)
	}
	if (trajectory.Reason == "") != (trajectory.Status == subjects.Succeeded) {
		t.Errorf("status %s with reason %q", trajectory.Status, trajectory.Reason)
	}
	for i, turn := range trajectory.Turns {
		if turn.Queued > turn.Generated || turn.Generated > turn.Stepped || turn.Prompt.End != turn.Completion.Start {
			t.Errorf("turn %d is out of order: %+v", i, turn)
		}
	}
}

func wants(t *testing.T, trajectory *subjects.Trajectory, status subjects.Status, reason string) {
	t.Helper()
	if trajectory.Status != status || !strings.Contains(trajectory.Reason, reason) {
		t.Errorf("trajectory is %s (%s), want %s because of %q", trajectory.Status, trajectory.Reason, status, reason)
	}
}

// recorder keeps the requests a policy was sent.
type recorder struct {
	producers.Policy
	requests []producers.Request
}

func (r *recorder) Generate(ctx context.Context, q producers.Request) (producers.Completion, error) {
	q.IDs = slices.Clone(q.IDs)
	r.requests = append(r.requests, q)
	return r.Policy.Generate(ctx, q)
}
