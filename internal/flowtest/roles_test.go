package flowtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	group "github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/agents"
	produce "github.com/headrace/headrace/producers/service"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
	trainerbridge "github.com/headrace/headrace/trainer-bridge"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

// spec is a run as its roles know it.
type spec struct {
	GroupSize, Groups, Steps, Staleness int

	Turns, Sampled int // an episode: calls, and tokens of each
	Slots          int // of a producer

	Bucket, Rows, CacheBytes int
	Listen                   string
	Train                    time.Duration // a step of the trainer
}

// tokens of a trajectory, about: what is observed between the turns is short.
func (s *spec) tokens() int { return s.Turns * s.Sampled }

func (s *spec) grouper(ctx context.Context, c *bus.Conn, log zerolog.Logger) error {
	data, err := dataset.Open(dataset.Config{}, 0, 1)
	if err != nil {
		return err
	}
	return group.Run(ctx, group.Config{Conn: c, Run: run, Dataset: data, Environment: "long", Writer: "g", Log: log,
		Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: s.Sampled},
		Grouper: grouper.Config{GroupSize: s.GroupSize, GroupsPerBatch: s.Groups, Steps: int64(s.Steps), MaxStaleness: &s.Staleness,
			ZeroVariance: grouper.PolicyKeep, Stale: grouper.PolicyKeep}}) // the engine keeps its weights
}

func (s *spec) bridge(ctx context.Context, c *bus.Conn, log zerolog.Logger) error {
	return trainerbridge.Run(ctx, trainerbridge.Config{Conn: c, Run: run, Listen: []string{s.Listen}, Inspect: true, CacheBytes: s.CacheBytes, Instance: "b", Log: log,
		MaxSteps: subjects.Step(s.Steps), Layout: layout.Config{Buckets: []int{s.Bucket}, Rows: s.Rows, MaxRows: s.Rows, Slots: 2}})
}

// producer is the real one, playing an environment that does nothing.
func (s *spec) producer(ctx context.Context, c *bus.Conn, name string, log zerolog.Logger) error {
	words, err := tokenizer.NewWords("go on")
	if err != nil {
		return err
	}
	template, err := tokenizer.NewChatML(words)
	if err != nil {
		return err
	}
	agent, err := agents.New(agents.Conversation, "go on")
	if err != nil {
		return err
	}
	setup := producers.Setup{Agent: agent, New: func() (envs.Environment, error) { return &long{turns: s.Turns}, nil }}
	return produce.Run(ctx, c, produce.Config{Run: run, Slots: s.Slots, Drain: time.Second, Log: log, Player: producers.Config{Producer: name, Tokenizer: words,
		Template: template, Log: log, Environments: map[string]producers.Setup{"long": setup}, Limits: producers.Limits{Tokens: s.Bucket}}})
}

// long is an environment that lets the agent talk for some turns.
type long struct{ turns, played int }

var episodes atomic.Int64

func (l *long) Reset(context.Context, envs.Task) (envs.Observation, error) {
	l.played = 0
	return l.say(), nil
}

func (l *long) say() envs.Observation {
	return envs.Observation{Messages: []envs.Message{{Role: envs.RoleUser, Content: "go on"}}}
}

func (l *long) Step(context.Context, envs.Action) (envs.StepResult, error) {
	if l.played++; l.played < l.turns {
		return envs.StepResult{Observation: l.say()}, nil
	}
	return envs.StepResult{Terminated: true, Reward: float64(episodes.Add(1) % 2)}, nil
}

func (l *long) Close() error { return nil }

// taken is a batch as the trainer got it.
type taken struct {
	*feed.Batch
	memory []byte
}

// trainer takes every batch, after next allows it, and commits it.
func (s *spec) trainer(ctx context.Context, next func(subjects.Step) error, look func(taken) error) error {
	c, err := dial(ctx, s.Listen)
	if err != nil {
		return err
	}
	defer c.Close("done") //nolint:errcheck // it has all
	defer context.AfterFunc(ctx, func() { _ = c.Abort() })()
	for step := subjects.Step(1); ; step++ {
		if err := next(step); err != nil {
			return err
		}
		b, memory, err := c.Next()
		var end *feed.EndError
		if errors.As(err, &end) {
			if int(end.Steps) != s.Steps || int(step) != s.Steps+1 {
				return fmt.Errorf("the feed ends after step %d (%s) at step %d", end.Steps, end.Reason, step)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if got := fmt.Sprintf("%08x", subjects.Checksum(memory)); got != b.Digest || b.Step != step {
			return fmt.Errorf("step %d with digest %s, want step %d with %s", b.Step, b.Digest, step, got)
		}
		if err := look(taken{b, memory}); err != nil {
			return err
		}
		if err := errors.Join(c.Release(b), c.Commit(feed.Commit{Step: step, Tokens: int64(b.Tokens)})); err != nil {
			return err
		}
	}
}

// dial waits for the bridge to listen.
func dial(ctx context.Context, address string) (*feed.Client, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := feed.Dial(ctx, address, feed.Hello{Client: "flowtest"})
		if err == nil || !strings.Contains(err.Error(), "reach bridge") {
			return c, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}
