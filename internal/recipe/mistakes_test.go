package recipe_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/recipe"
)

// good is a recipe without a mistake; the cases below change one line of it.
const good = `name: lake
seed: 1
environment:
  name: frozenlake
  params:
    size: 4
    holes: 0.1
sampling:
  temperature: 1.0
producer:
  episodes: 8
  call_timeout: 30s
dataset:
  seeds: {first: 1000, count: 500}
  eval_seeds: {first: 0, count: 64}
grouper:
  group_size: 8
  groups_per_batch: 4
  evaluation:
    every: 10
bridge:
  buckets: [160]
model:
  max_context: 160
trainer:
  steps: 10
  wait_weights: {need: none}
`

func TestParse_TakesTheRecipeThatTheCasesBreak(t *testing.T) {
	if _, err := recipe.Parse("lake.yaml", []byte(good)); err != nil {
		t.Fatal(err)
	}
}

// TestParse_AMistakeIsOneLine: file, line and field where there is one, and
// what is allowed.
func TestParse_AMistakeIsOneLine(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new string
		line     int // 0: the mistake has none
		field    string
		says     []string // parts of the message
	}{
		{"unknown section", "model:\n", "modell:\n", 23, "modell", []string{"unknown field", "allowed", "model", "trainer"}},
		{"unknown tracker", "  steps: 10", "  steps: 10\n  trackers: [excel]", 0, "trainer.trackers", []string{"excel", "wandb tensorboard mlflow trackio"}},
		{"unknown field", "group_size: 8", "groupsize: 8", 17, "grouper.groupsize", []string{"unknown field", "group_size"}},
		{"unknown field far inside", "every: 10", "evry: 10", 20, "grouper.evaluation.evry", []string{"every, tasks"}},
		{"unknown field in flow style", "{need: none}", "{neeed: none}", 27, "trainer.wait_weights.neeed", []string{"need, timeout_s"}},
		{"the same key twice", "seed: 1\n", "seed: 1\nseed: 2\n", 3, "", []string{"seed"}},
		{"text for a whole number", "steps: 10", "steps: ten", 26, "trainer.steps", []string{"whole number"}},
		{"fraction for a whole number", "group_size: 8", "group_size: 8.5", 17, "grouper.group_size", []string{"whole number"}},
		{"number without a unit for a duration", "call_timeout: 30s", "call_timeout: fast", 12, "producer.call_timeout", []string{"duration"}},
		{"text for a number", "temperature: 1.0", "temperature: warm", 9, "sampling.temperature", []string{"number"}},
		{"text for a list", "buckets: [160]", "buckets: long", 22, "bridge.buckets", []string{"list"}},
		{"infinite number", "temperature: 1.0", "temperature: .inf", 9, "sampling.temperature", []string{"number"}},
		{"number for a name", "name: lake", "name: 17", 1, "name", []string{"text"}},
		{"text for a choice of two", "every: 10", "greedy: maybe", 20, "grouper.evaluation.greedy", []string{"true or false"}},
		{"bare number for a duration", "call_timeout: 30s", "call_timeout: 30", 12, "producer.call_timeout", []string{"duration"}},
		{"unknown field in a list", "groups_per_batch: 4", "environments: [{name: a, wait: 1}]", 18, "grouper.environments.0.wait", []string{"weight"}},
		{"list for a section", "{need: none}", "[none]", 27, "trainer.wait_weights", []string{"mapping"}},
		{"no YAML", "  params:\n", "  params: {\n", 0, "", nil},
		{"name with capitals", "name: lake", "name: Lake", 1, "name", []string{"a-z"}},
		{"environment that is not there", "name: frozenlake", "name: chess", 4, "environment.name", []string{"calculator", "frozenlake"}},
		{"environment's parameter that is not there", "size: 4", "sise: 4", 0, "environment.params", []string{"sise", "size", "holes"}},
		{"environment's parameter out of range", "size: 4", "size: 400", 0, "environment.params", []string{"size", "2 to 16"}},
		{"temperature of zero", "temperature: 1.0", "temperature: 0", 9, "sampling.temperature", []string{"above 0"}},
		{"no episodes", "episodes: 8", "episodes: 0", 11, "producer.episodes", []string{"at least 1"}},
		{"no steps", "steps: 10", "steps: 0", 26, "trainer.steps", []string{"at least 1"}},
		{"choice that is not there", "need: none", "need: most", 27, "trainer.wait_weights.need", []string{"none", "quorum", "all"}},
		{"group of one", "group_size: 8", "group_size: 1", 17, "grouper.group_size", []string{"at least 2"}},
		{"minimum above the group", "group_size: 8", "min_group_size: 9", 17, "grouper.min_group_size", []string{"group_size (8)"}},
		{"batch that cannot hold a group", "groups_per_batch: 4", "{tokens_per_batch: 1000, trajectory_tokens: 160}", 18, "grouper.tokens_per_batch", []string{"8 x trajectory_tokens 160 = 1280", "no batch could be cut"}},
		{"a second environment", "groups_per_batch: 4", "environments: [{name: a}, {name: b}]", 18, "grouper.environments", []string{"follows from the recipe"}},
		{"no deadline", "group_size: 8", "group_deadline: -1s", 17, "grouper.group_deadline", []string{"for ever"}},
		{"slot outlives its group", "group_size: 8", "slot_timeout: 20m", 17, "grouper.slot_timeout", []string{"group_deadline"}},
		{"evaluation on training tasks", "{first: 0, count: 64}", "{first: 990, count: 64}", 15, "dataset.eval_seeds", []string{"overlaps", "trained on"}},
		{"fewer held-out tasks than are played", "{first: 0, count: 64}", "{first: 0, count: 5}", 15, "dataset.eval_seeds.count", []string{"64"}},
		{"rows shorter than segments", "buckets: [160]", "buckets: [100]", 22, "bridge.buckets", []string{"100", "160"}},
		{"buckets that descend", "buckets: [160]", "buckets: [160, 80]", 22, "bridge.buckets", []string{"ascending"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			if strings.HasPrefix(c.new, "{") && !strings.HasPrefix(c.old, "{") { // a few fields in the place of one
				text = strings.Replace(good, c.old, strings.ReplaceAll(strings.Trim(c.new, "{}"), ", trajectory", "\n  trajectory"), 1)
			}
			if text == good {
				t.Fatal("the case changes nothing")
			}
			_, err := recipe.Parse("lake.yaml", []byte(text))
			var mistake *recipe.Error
			if !errors.As(err, &mistake) {
				t.Fatalf("got %v, want a *recipe.Error", err)
			}
			if s := err.Error(); strings.Contains(s, "\n") || !strings.HasPrefix(s, "lake.yaml:") {
				t.Errorf("%q: want one line that starts with the file", s)
			}
			if mistake.Field != c.field || c.line > 0 && mistake.Line != c.line {
				t.Errorf("field %q line %d, want %q line %d", mistake.Field, mistake.Line, c.field, c.line)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

func TestLoad_AMissingFileIsOneLine(t *testing.T) {
	_, err := recipe.Load("nowhere/recipe.yaml")
	var mistake *recipe.Error
	if !errors.As(err, &mistake) || !strings.HasPrefix(err.Error(), "nowhere/recipe.yaml: no such file") {
		t.Errorf("got %v", err)
	}
}
