package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	group "github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/agents"
	produce "github.com/headrace/headrace/producers/service"
	"github.com/headrace/headrace/producers/sglang"
	"github.com/headrace/headrace/producers/sidecar"
	"github.com/headrace/headrace/producers/tokenizer"
	"github.com/headrace/headrace/subjects"
	trainerbridge "github.com/headrace/headrace/trainer-bridge"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// ProduceOptions are what a producer is told beside the run.
type ProduceOptions struct {
	Name     string // unique among live producers
	Episodes int    // played at once; 0: the recipe's
}

func (m *member) produce(ctx context.Context, o ProduceOptions) error {
	cfg, err := m.player(o.Name)
	if err != nil {
		return err
	}
	p := &m.recipe.Producer
	slots := o.Episodes
	if slots == 0 {
		slots = p.Episodes
	}
	return produce.Run(ctx, m.conn, produce.Config{Run: m.run, Player: cfg, Slots: slots, Tokenizer: m.record.Tokenizer, Drain: p.DrainTimeout, Log: m.log})
}

// player furnishes episodes as the recipe says.
func (m *member) player(name string) (producers.Config, error) {
	p := &m.recipe.Producer
	cfg := producers.Config{
		Producer: name, Tokenizer: m.tok, Log: m.log, Environments: map[string]producers.Setup{},
		Limits: producers.Limits{Call: p.CallTimeout, Step: p.StepTimeout, Episode: p.EpisodeTimeout, Tokens: m.recipe.Model.MaxContext},
	}
	for i := range m.plays {
		setup, err := m.plays[i].setup(m.tok)
		if err != nil {
			return cfg, fmt.Errorf("environment %s: %w", m.plays[i].Name, err)
		}
		cfg.Environments[m.plays[i].Name] = setup
		cfg.Template = setup.Template
	}
	return cfg, nil
}

// setup furnishes the episodes of one environment.
func (p *play) setup(tok tokenizer.Tokenizer) (producers.Setup, error) {
	var tools []envs.Tool
	if p.DescribeTools {
		tools = p.spec.Tools
	}
	template, err := tokenizer.NewChatML(tok, tools...)
	if err != nil {
		return producers.Setup{}, err
	}
	system := p.System
	if system == "" {
		system = p.spec.System
	}
	agent, err := agents.New(agents.Kind(p.Agent), system)
	return producers.Setup{
		New:   func() (envs.Environment, error) { return p.spec.New(p.params) },
		Agent: agent, Template: template, MaxTurns: p.MaxTurns,
	}, err
}

// writeDemos plays the warm start's demonstrations into a file, unless it is
// there or none are wanted.
func (m *member) writeDemos(ctx context.Context, file string) error {
	if m.recipe.Trainer.WarmStart.Steps == 0 {
		return nil
	}
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	cfg, err := m.player("demonstrator")
	if err != nil {
		return err
	}
	cfg.Policy = noPolicy{}
	player, err := producers.New(cfg)
	if err != nil {
		return err
	}
	out, err := os.Create(file + ".tmp")
	if err != nil {
		return fmt.Errorf("write demonstrations: %w", err)
	}
	defer out.Close()
	if err := m.demonstrate(ctx, player, out); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write demonstrations: %w", err)
	}
	return os.Rename(out.Name(), file)
}

// demonstrate plays the same number of episodes of each environment.
func (m *member) demonstrate(ctx context.Context, player *producers.Player, out io.Writer) error {
	d := &m.recipe.Demonstrations
	for i := range m.plays {
		err := player.Demonstrate(ctx, out, producers.DemoConfig{Environment: m.plays[i].Name,
			Episodes: max(1, d.Episodes/len(m.plays)), FirstSeed: d.FirstSeed, Skill: d.Skill, Seed: m.recipe.Seed})
		if err != nil {
			return err
		}
	}
	return nil
}

// noPolicy stands where a player that only demonstrates needs one.
type noPolicy struct{}

func (noPolicy) Generate(context.Context, producers.Request) (producers.Completion, error) {
	return producers.Completion{}, producers.ErrNoEngine
}

func (m *member) group(ctx context.Context, writer string) error {
	tasks := 0
	if m.recipe.Grouper.Evaluation.Every > 0 {
		tasks = m.recipe.Grouper.Evaluation.Tasks
	}
	s := &m.recipe.Sampling
	policy := m.recipe.Grouper
	policy.StateBytes = m.recipe.StateBytes()
	cfg := group.Config{
		Conn: m.conn, Run: m.run, Grouper: policy, Environment: m.plays[0].Name,
		Sampling: subjects.Sampling{Temperature: s.Temperature, TopP: s.TopP, TopK: s.TopK, MaxNewTokens: s.MaxNewTokens, Seed: uint64(m.recipe.Seed)},
		Writer:   writer, Watchdog: m.recipe.Watchdog, Log: m.log,
	}
	data, err := dataset.Open(m.recipe.Dataset, tasks, m.recipe.Seed)
	switch {
	case errors.Is(err, dataset.ErrEmpty):
		err = group.End(ctx, cfg, subjects.EndEmptyDataset, err.Error())
	case err == nil:
		cfg.Dataset = data
		for range m.recipe.Environments { // the same seeds are other tasks in each
			cfg.Mix = append(cfg.Mix, data)
		}
		err = group.Run(ctx, cfg)
	}
	var ended *group.Ended
	if ctx.Err() != nil || err != nil && !errors.As(err, &ended) {
		return err
	}
	return errors.Join(err, m.lastWord(ctx))
}

// BridgeOptions are what a bridge is told beside the run.
type BridgeOptions struct {
	Name        string   // of this bridge on TELEMETRY; empty: host and process
	Listen      []string // "unix:/path" or "tcp:host:port"
	Weights     string   // folder the trainer publishes weights in
	Checkpoints string
	Demos       string
	Model       string // folder to write the reference model's config.json in; empty: none
	Token       string // what a trainer over TCP must show
	// Trainer runs under the bridge, with HEADRACE_FEED (the first of Listen)
	// and HEADRACE_CHECKPOINTS in its environment.
	Trainer Companion

	onEvent func(trainerbridge.Event)
}

func (m *member) bridge(ctx context.Context, o BridgeOptions) error {
	trainer := m.recipe.Trainer
	if len(trainer.Buckets) == 0 {
		trainer.Buckets = m.recipe.Bridge.WithDefaults().Buckets
	}
	trainerJSON, err := json.Marshal(trainer)
	if err != nil {
		return err
	}
	modelJSON, err := json.Marshal(m.modelConfig())
	if err != nil {
		return err
	}
	paths := feed.Paths{Weights: o.Weights, Checkpoints: o.Checkpoints}
	if m.recipe.Trainer.WarmStart.Steps > 0 {
		paths.Demos = o.Demos
	}
	return trainerbridge.Run(ctx, trainerbridge.Config{
		Conn: m.conn, Run: m.run, Instance: o.Name, Listen: o.Listen, Layout: m.recipe.Bridge, Vocab: m.tok.VocabSize(),
		Trainer: trainerJSON, Model: modelJSON, Paths: paths, MaxSteps: subjects.Step(m.recipe.Trainer.Steps),
		Token: o.Token, Inspect: true, Log: m.log, OnEvent: o.onEvent,
		Retention:   trainerbridge.Retention{Keep: m.recipe.Retention.Keep, Steps: m.recipe.Retention.Steps, Checkpoints: m.recipe.Trainer.CheckpointKeep},
		Leased:      m.recipe.Grouper.Source != grouper.SourceExternal,
		MaxSegments: m.maxSegments(),
	})
}

// maxSegments is the most rows of a trajectory that a batch is sure to have room for.
func (m *member) maxSegments() int {
	return max(1, m.recipe.Bridge.WithDefaults().MaxRows/m.recipe.Grouper.BatchTrajectories())
}

// EngineOptions are what a sidecar is told beside the run.
type EngineOptions struct {
	Name  string // in the run's registry
	URL   string // of the engine; the host "auto" is the address that the bus knows this machine by
	Model string // folder to write the reference model's config.json in; empty: none
	// Engine runs under its sidecar, with HEADRACE_MODEL (Model) and
	// HEADRACE_SLOTS (the recipe's engine.slots) in its environment.
	Engine Companion
}

func (m *member) engine(ctx context.Context, o EngineOptions) error {
	return sidecar.Run(ctx, m.conn, sidecar.Config{Run: m.run, Engine: o.Name, URL: o.URL,
		Pause: sglang.PauseMode(m.recipe.Engine.Pause), Log: m.log})
}

// absolute makes a path independent of the working folder, for another process.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
