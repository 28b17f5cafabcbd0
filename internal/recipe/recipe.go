// Package recipe is a run as its user writes it down: one YAML file that says
// what is played, how it is grouped and how it is trained.
//
// One idea explains its shape: every section is the configuration struct of
// the part it configures, so a field is documented once, where it is used, and
// docs/configuration.md is generated from those structs.
package recipe

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/headrace/headrace/envs/builtin"
	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/grouper/watchdog"
	"github.com/headrace/headrace/producers/agents"
	"github.com/headrace/headrace/trainer-bridge/layout"
)

// Recipe is a whole run.
type Recipe struct {
	// Name of the recipe; runs are called after it. Required.
	Name string `yaml:"name"`
	// Description says in a sentence what is learned.
	Description string `yaml:"description"`
	// Seed decides every draw of the run that does not depend on timing.
	Seed int64 `yaml:"seed"`
	// Environment is what is played.
	Environment Environment `yaml:"environment"`
	// Environments are what is played in a run with several; then environment
	// is left out.
	Environments []Environment `yaml:"environments"`
	// Sampling are the parameters of every training episode's model calls.
	Sampling Sampling `yaml:"sampling"`
	// Dataset says which tasks there are and in which order they come.
	Dataset dataset.Config `yaml:"dataset"`
	// Producer is how one producer process plays.
	Producer Producer `yaml:"producer"`
	// Grouper is how trajectories become groups and batches.
	Grouper grouper.Config `yaml:"grouper"`
	// Bridge is how a batch is laid out for the trainer.
	Bridge layout.Config `yaml:"bridge"`
	// Model is the reference model that trainer and engine share.
	Model Model `yaml:"model"`
	// Demonstrations are what the warm start is shown.
	Demonstrations Demonstrations `yaml:"demonstrations"`
	// Trainer is the reference trainer.
	Trainer Trainer `yaml:"trainer"`
	// Engine is the reference inference engine.
	Engine Engine `yaml:"engine"`
	// Watchdog says when a run that stands still is reported, and when it ends.
	Watchdog watchdog.Config `yaml:"watchdog"`
	// Retention is how much of the trajectories stays on the bus.
	Retention Retention `yaml:"retention"`
	// Bus is the embedded server of `headrace up`.
	Bus Bus `yaml:"bus"`
}

// Environment names what is played and how the agent plays it.
type Environment struct {
	// Name of a built-in environment. Required.
	Name string `yaml:"name"`
	// Params are the environment's own parameters.
	Params map[string]any `yaml:"params"`
	// Agent is model (one turn), conversation (turns of text) or tool (calls
	// tools in between).
	Agent string `yaml:"agent"`
	// System replaces the environment's system prompt.
	System string `yaml:"system"`
	// MaxTurns lowers the environment's turn limit; 0 leaves it.
	MaxTurns int `yaml:"max_turns"`
	// DescribeTools puts the descriptions of the environment's tools into the
	// system prompt, as models that were trained on tools expect. It costs their
	// text in every episode, a token a byte with the reference tokenizer, whose
	// model has no use for it. Default false.
	DescribeTools bool `yaml:"describe_tools"`
	// Weight is its part of the groups, relative to the others'. Default 1.
	// Among several only.
	Weight float64 `yaml:"weight"`
	// MinShare is the least part of every batch that is from it, 0 to 1. Among
	// several only.
	MinShare float64 `yaml:"min_share"`
}

// Sampling are the parameters of a model call.
type Sampling struct {
	// Temperature of training episodes, and of the sampled half of an evaluation.
	Temperature float64 `yaml:"temperature"`
	// TopP keeps the smallest set of tokens with this probability; 1 keeps all.
	TopP float64 `yaml:"top_p"`
	// TopK keeps this many tokens; 0 keeps all.
	TopK int `yaml:"top_k"`
	// MaxNewTokens bounds one action. Default: what the environment's longest takes.
	MaxNewTokens int `yaml:"max_new_tokens"`
}

// Producer bounds what one producer process does at once and how long.
type Producer struct {
	// Episodes played at once by a process.
	Episodes int `yaml:"episodes"`
	// CallTimeout bounds one model call, retries on other engines included.
	CallTimeout time.Duration `yaml:"call_timeout"`
	// StepTimeout bounds one call of the environment.
	StepTimeout time.Duration `yaml:"step_timeout"`
	// EpisodeTimeout bounds a whole episode.
	EpisodeTimeout time.Duration `yaml:"episode_timeout"`
	// DrainTimeout is how long a producer that is told to stop lets its
	// episodes play on; the rest it hands back to the queue.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
}

// Model are the sizes of the reference model.
type Model struct {
	// DModel is the width of the residual stream.
	DModel int `yaml:"d_model"`
	// Layers and Heads of the decoder.
	Layers int `yaml:"layers"`
	Heads  int `yaml:"heads"`
	// DFF is the hidden width of the MLP.
	DFF int `yaml:"d_ff"`
	// MaxContext bounds the tokens of a segment, prompt and completions together.
	MaxContext int `yaml:"max_context"`
}

// Demonstrations are episodes that the environment's own player plays for the
// supervised warm start. None are made when the warm start has no steps.
type Demonstrations struct {
	// Episodes to play.
	Episodes int `yaml:"episodes"`
	// Skill is the probability of the best action; otherwise a random one is taken.
	Skill float64 `yaml:"skill"`
	// FirstSeed is the environment seed of the first; they are apart from the
	// dataset's and the evaluation's.
	FirstSeed int64 `yaml:"first_seed"`
}

// Engine configures the reference engines of `headrace up`.
type Engine struct {
	// Count of engine processes.
	Count int `yaml:"count"`
	// Slots is the number of sequences an engine keeps in its cache.
	Slots int `yaml:"slots"`
	// Pause is what happens to requests in flight when weights change: retract
	// (recomputed under the new weights), in_place (go on with the old cache)
	// or abort (sampled anew).
	Pause string `yaml:"pause"`
}

// Bus configures the embedded server.
type Bus struct {
	// Sync is always (every acknowledged message is on disk) or an interval
	// such as 1s (a power failure may lose that much; a killed process, nothing).
	Sync string `yaml:"sync"`
}

// Default is a recipe with every default in place.
func Default() *Recipe {
	return &Recipe{
		Sampling:       Sampling{Temperature: 1, TopP: 1},
		Producer:       Producer{Episodes: 192, CallTimeout: 2 * time.Minute, StepTimeout: time.Minute, EpisodeTimeout: 10 * time.Minute, DrainTimeout: 5 * time.Second},
		Model:          Model{DModel: 64, Layers: 2, Heads: 2, DFF: 256, MaxContext: 160},
		Demonstrations: Demonstrations{Episodes: 1500, FirstSeed: 1 << 40},
		Trainer:        DefaultTrainer(),
		Engine:         Engine{Count: 1, Slots: 256, Pause: "retract"},
		Retention:      DefaultRetention(),
		Bus:            Bus{Sync: "always"},
	}
}

// withDefaults fills in what depends on other fields.
func (r *Recipe) withDefaults() {
	if r.Trainer.Seed < 0 {
		r.Trainer.Seed = int(r.Seed)
	}
	longest := 0
	for _, e := range r.played() {
		if e.Agent == "" {
			e.Agent = string(agents.Conversation)
		}
		longest = max(longest, builtin.Specs()[e.Name].MaxActionTokens)
	}
	if r.Sampling.MaxNewTokens == 0 {
		r.Sampling.MaxNewTokens = longest
	}
	if len(r.Environments) > 0 && len(r.Grouper.Environments) == 0 {
		for _, e := range r.Environments {
			r.Grouper.Environments = append(r.Grouper.Environments, grouper.Environment{Name: e.Name, Weight: e.Weight, MinShare: e.MinShare})
		}
	}
	if r.Grouper.Steps == 0 {
		r.Grouper.Steps = int64(r.Trainer.Steps)
	}
}

// played are the environments of the run.
func (r *Recipe) played() []*Environment {
	if len(r.Environments) == 0 {
		return []*Environment{&r.Environment}
	}
	var list []*Environment
	for i := range r.Environments {
		list = append(list, &r.Environments[i])
	}
	return list
}

// Played are the environments of the run: one, or those of a mix in their order.
func (r *Recipe) Played() []Environment {
	var list []Environment
	for _, e := range r.played() {
		list = append(list, *e)
	}
	return list
}

// resolve puts the parts' own defaults in place and makes paths independent of
// the recipe's folder: what is left is what the run's record keeps.
func (r *Recipe) resolve(dir string) {
	r.Grouper = r.Grouper.WithDefaults()
	r.Dataset = r.Dataset.WithDefaults(r.Seed)
	r.Bridge = r.Bridge.WithDefaults()
	r.Watchdog = r.Watchdog.WithDefaults()
	for _, path := range []*string{&r.Dataset.Path, &r.Dataset.EvalPath} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)

// Validate reports the first value that is not allowed, as a *FieldError.
func (r *Recipe) Validate() error {
	if !namePattern.MatchString(r.Name) {
		return fieldErrorf("name", "%q; want 1 to 31 of a-z, 0-9 and -", r.Name)
	}
	for _, check := range []func() error{r.validateEnvironments, r.validateSizes, r.Trainer.validate, r.validateParts, r.validateRetention} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// Marshal is the resolved recipe as YAML.
func (r *Recipe) Marshal() ([]byte, error) {
	data, err := yaml.MarshalWithOptions(r, yaml.CustomMarshaler(plainFloat))
	if err != nil {
		return nil, fmt.Errorf("encode recipe: %w", err)
	}
	return data, nil
}

// plainFloat writes a number without an exponent: YAML 1.2 wants a point before
// one, and readers differ on what 1e-06 is.
func plainFloat(f float64) ([]byte, error) {
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return []byte(text), nil
}

// LoadSeed is Load with another seed, where seed is not nil.
func LoadSeed(file string, seed *int64) (*Recipe, error) {
	return load(file, seed)
}
