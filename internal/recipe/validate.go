package recipe

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headrace/headrace/envs/builtin"
	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/producers/agents"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

func (r *Recipe) validateEnvironments() error {
	if len(r.Environments) == 0 {
		return r.Environment.validate("environment")
	}
	if r.Environment.Name != "" {
		return fieldErrorf("environment", "beside environments: name each in the list, or only one here")
	}
	if r.Dataset.Path != "" {
		return fieldErrorf("dataset.path", "goes with one environment, not with a mix")
	}
	names := map[string]bool{}
	for i := range r.Environments {
		e, field := &r.Environments[i], fmt.Sprintf("environments.%d", i)
		if err := e.validate(field); err != nil {
			return err
		}
		if names[e.Name] {
			return fieldErrorf(field+".name", "%s is in the list already", e.Name)
		}
		names[e.Name] = true
	}
	return nil
}

func (e *Environment) validate(field string) error {
	specs := builtin.Specs()
	spec, ok := specs[e.Name]
	if !ok {
		return fieldErrorf(field+".name", "%q; built in are %s", e.Name, strings.Join(slices.Sorted(maps.Keys(specs)), ", "))
	}
	params, err := e.JSON()
	if err != nil {
		return fieldErrorf(field+".params", "%v", err)
	}
	instance, err := spec.New(params)
	if err != nil {
		return fieldErrorf(field+".params", "%v", err)
	}
	if err := instance.Close(); err != nil {
		return fieldErrorf(field, "%v", err)
	}
	if !slices.Contains(agents.Kinds(), agents.Kind(e.Agent)) {
		return fieldErrorf(field+".agent", "%q; allowed: %v", e.Agent, agents.Kinds())
	}
	if e.MaxTurns < 0 {
		return fieldErrorf(field+".max_turns", "must be at least 0")
	}
	return nil
}

// JSON is the environment's parameters as its constructor takes them.
func (e *Environment) JSON() (json.RawMessage, error) {
	if len(e.Params) == 0 {
		return nil, nil
	}
	return json.Marshal(e.Params)
}

func (r *Recipe) validateSizes() error {
	m := &r.Model
	for _, c := range []struct {
		field string
		bad   bool
		want  string
	}{
		{"sampling.temperature", r.Sampling.Temperature <= 0, "above 0: equal episodes give no advantage"},
		{"sampling.top_p", r.Sampling.TopP <= 0 || r.Sampling.TopP > 1, "in (0, 1]"},
		{"sampling.top_k", r.Sampling.TopK < 0, "at least 0"},
		{"sampling.max_new_tokens", r.Sampling.MaxNewTokens < 1, "at least 1"},
		{"producer.episodes", r.Producer.Episodes < 1, "at least 1"},
		{"producer.call_timeout", r.Producer.CallTimeout <= 0, "above 0"},
		{"producer.step_timeout", r.Producer.StepTimeout <= 0, "above 0"},
		{"producer.episode_timeout", r.Producer.EpisodeTimeout <= 0, "above 0"},
		{"producer.drain_timeout", r.Producer.DrainTimeout < 0, "at least 0"},
		{"model.layers", m.Layers < 1, "at least 1"},
		{"model.heads", m.Heads < 1, "at least 1"},
		{"model.d_model", m.DModel < 1 || m.Heads > 0 && m.DModel%(2*m.Heads) != 0, "a multiple of twice the heads"},
		{"model.d_ff", m.DFF < 1, "at least 1"},
		{"model.max_context", m.MaxContext <= r.Sampling.MaxNewTokens, "above sampling.max_new_tokens"},
		{"demonstrations.episodes", r.Trainer.WarmStart.Steps > 0 && r.Demonstrations.Episodes < 1, "at least 1 with trainer.warm_start"},
		{"demonstrations.skill", r.Demonstrations.Skill < 0 || r.Demonstrations.Skill > 1, "in [0, 1]"},
		{"engine.count", r.Engine.Count < 1, "at least 1"},
		{"engine.slots", r.Engine.Slots < 1, "at least 1"},
		{"engine.pause", !slices.Contains([]string{"retract", "in_place", "abort"}, r.Engine.Pause), "retract, in_place or abort"},
	} {
		if c.bad {
			return fieldErrorf(c.field, "must be %s", c.want)
		}
	}
	return nil
}

// validateParts asks the parts and puts their section before the field.
func (r *Recipe) validateParts() error {
	if r.Grouper.Steps != int64(r.Trainer.Steps) {
		return fieldErrorf("grouper.steps", "%d, but trainer.steps is %d: leave it out", r.Grouper.Steps, r.Trainer.Steps)
	}
	if len(r.Grouper.Environments) != len(r.Environments) {
		return fieldErrorf("grouper.environments", "follows from the recipe's environments: leave it out")
	}
	evalTasks := 0
	if r.Grouper.Evaluation.Every > 0 {
		evalTasks = r.Grouper.WithDefaults().Evaluation.Tasks
	}
	var g *grouper.FieldError
	var d *dataset.FieldError
	var l *layout.FieldError
	if err := r.Grouper.Validate(); errors.As(err, &g) {
		return &FieldError{"grouper." + g.Field, g.Msg}
	} else if err != nil {
		return err
	}
	if err := r.Watchdog.Validate(); errors.As(err, &g) {
		return &FieldError{"watchdog." + g.Field, g.Msg}
	}
	if err := r.Dataset.Validate(evalTasks); errors.As(err, &d) {
		return &FieldError{"dataset." + d.Field, d.Msg}
	} else if err != nil {
		return err
	}
	if err := r.Bridge.Validate(); errors.As(err, &l) {
		return &FieldError{"bridge." + l.Field, l.Msg}
	} else if err != nil {
		return err
	}
	return r.validateLengths()
}

// validateLengths wants a row of the trainer to hold the longest segment that
// the model can make.
func (r *Recipe) validateLengths() error {
	bridge := r.Bridge.WithDefaults()
	b := bridge.Buckets
	if bridge.Overflow == layout.OverflowError && bridge.Layout != layout.Packed && b[len(b)-1] < r.Model.MaxContext {
		return fieldErrorf("bridge.buckets", "the longest is %d, but model.max_context allows segments of %d tokens", b[len(b)-1], r.Model.MaxContext)
	}
	return nil
}
