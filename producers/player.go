package producers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
)

// Config is what a [Player] plays with.
type Config struct {
	// Producer is written into every trajectory.
	Producer string
	// Tokenizer and Template lay out the conversations. Required.
	Tokenizer tokenizer.Tokenizer
	Template  tokenizer.Template
	// Policy answers the model calls. Required.
	Policy Policy
	// Environments by the name that tasks give. Required.
	Environments map[string]Setup
	// Limits hold whatever the parts do.
	Limits Limits
	// Spans records what turns do not say, and is the clock of trajectories; nil:
	// nothing, and the machine's.
	Spans *spans.Recorder
	Log   zerolog.Logger
}

// Setup is how the episodes of one environment are furnished.
type Setup struct {
	// New makes the environment's instance of an episode; the Player closes it.
	New func() (envs.Environment, error)
	// Agent makes the agent of an episode.
	Agent func() Agent
	// Template lays out this environment's conversations, where they differ:
	// its tools are part of the system prompt. Nil: Config.Template.
	Template tokenizer.Template
	// MaxTurns bounds the steps of an episode; 0 leaves the environment's
	// limit, which it cannot raise.
	MaxTurns int
}

// Limits bound an episode. A zero field takes the default.
type Limits struct {
	// Call bounds one model call, retries included. Default 2 minutes.
	Call time.Duration
	// Step bounds one call of the environment: reset, step, close. Default 1 minute.
	Step time.Duration
	// Episode bounds all of it. Default 30 minutes.
	Episode time.Duration
	// Grace is how long an environment has to return after its context ended.
	// Then the episode ends without it and the hung call counts as leaked.
	// Default 2 seconds.
	Grace time.Duration
	// Tokens is the context budget: the longest segment an episode may have,
	// at most the engine's context. Default 4096.
	Tokens int
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&l.Call, 2 * time.Minute}, {&l.Step, time.Minute}, {&l.Episode, 30 * time.Minute}, {&l.Grace, 2 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if l.Tokens <= 0 {
		l.Tokens = 4096
	}
	return l
}

// Player plays episodes, any number at once.
type Player struct {
	cfg   Config
	vocab int
	stops []int32 // the first one ends a turn that was cut
	stats Stats
	names spanNames
}

// spanNames are those of an episode's spans.
type spanNames struct{ queue, parse spans.Name }

// New makes a Player. It fails on a configuration that lacks a part.
func New(cfg Config) (*Player, error) {
	if cfg.Tokenizer == nil || cfg.Template == nil || cfg.Policy == nil {
		return nil, errors.New("player: tokenizer, template and policy are required")
	}
	for name, s := range cfg.Environments {
		if s.New == nil || s.Agent == nil {
			return nil, fmt.Errorf("player: environment %s lacks a constructor or an agent", name)
		}
	}
	stops := slices.Clone(cfg.Template.StopIDs())
	if len(stops) == 0 {
		return nil, errors.New("player: the template has no stop id")
	}
	cfg.Limits = cfg.Limits.withDefaults()
	return &Player{cfg: cfg, vocab: cfg.Tokenizer.VocabSize(), stops: stops,
		names: spanNames{cfg.Spans.Name("queue"), cfg.Spans.Name("parse")}}, nil
}

// Stats are the Player's counters; they may be read at any time.
func (p *Player) Stats() *Stats { return &p.stats }

// Play plays the task's episode to its end and returns its trajectory, always:
// what went wrong is in its status and reason. It returns within the limits
// even when the environment does not.
func (p *Player) Play(ctx context.Context, task *subjects.Task) *subjects.Trajectory {
	return p.PlayOn(ctx, task, p.cfg.Spans.Episode(subjects.FlowID(task.Group, task.Slot, task.Attempt), 0))
}

// PlayOn is Play with the episode's spans going where the caller's go.
func (p *Player) PlayOn(ctx context.Context, task *subjects.Task, on spans.Episode) *subjects.Trajectory {
	return p.play(ctx, task, func(e *episode) Policy { e.spans = on; return p.cfg.Policy })
}

func (p *Player) play(ctx context.Context, task *subjects.Task, policy func(*episode) Policy) *subjects.Trajectory {
	p.stats.Live.Add(1)
	defer p.stats.Live.Add(-1)
	e := p.newEpisode(task)
	e.policy = policy(e)
	status, err := e.run(ctx)
	t := e.finish(status, err)
	p.stats.count(status, err, e.ledger.Forks())
	if status == subjects.Failed {
		p.cfg.Log.Warn().Str("trajectory", t.ID()).Str("environment", t.Environment).Str("reason", t.Reason).
			Str("stack", stackOf(err)).Msg("episode failed")
	}
	return t
}
