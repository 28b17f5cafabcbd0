package envs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Spec is what the registry knows of an environment. It is read-only: many
// goroutines use one Spec.
type Spec struct {
	// Name is the key in the registry and in a recipe.
	Name string
	// Doc says in one sentence what is played.
	Doc string
	// New makes an instance. params is a JSON object (or empty: defaults);
	// an unknown key is an error that lists the allowed ones, and a value
	// out of range one that names the field. The caller closes the instance.
	New func(params json.RawMessage) (Environment, error)
	// System is the system prompt that goes before the first observation.
	System string
	// Words are the vocabulary pieces of the byte-plus-words tokenizer for
	// this environment: whole phrases as one piece, which is why an episode
	// is some 50 to 110 tokens.
	Words []string
	// Tools are what the agent may call; nil if none.
	Tools []Tool
	// MaxActionTokens bounds one action under the byte-plus-words tokenizer,
	// its end-of-turn token included: a sound default for max_new_tokens.
	MaxActionTokens int
	// Params documents every parameter that New takes.
	Params []Param
	// Yardsticks plays scripted players on the held-out tasks of the seeds and
	// returns the mean reward of each by name; nil if the environment has
	// none. Deterministic.
	Yardsticks func(params json.RawMessage, seeds []int64) (map[string]float64, error)
}

// Param documents one parameter of an environment.
type Param struct {
	// Name is its key in a recipe, Type what it holds, Default what it is
	// when left out, as JSON.
	Name, Type, Default string
	// Doc says what it does, its unit and its range.
	Doc string
}

// Registry maps names to environments. There is no global one: a program
// starts from builtin.Specs() and adds its own.
type Registry map[string]Spec

// New makes an instance of the named environment. The caller closes it.
func (r Registry) New(name string, params json.RawMessage) (Environment, error) {
	spec, ok := r[name]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(r)), ", ")
		return nil, fmt.Errorf("unknown environment %q: known are %s", name, known)
	}
	env, err := spec.New(params)
	if err != nil {
		return nil, fmt.Errorf("environment %s: %w", name, err)
	}
	return env, nil
}
