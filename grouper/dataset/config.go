// Package dataset says which tasks a run plays, in which order, and which are
// held out for evaluation: JSONL rows, or environment seeds.
//
// One idea explains its shape: the n-th task is a function of the
// configuration and n. The shuffle is a keyed permutation, so resuming a run,
// however long, takes its next ordinal and nothing else.
package dataset

import (
	"errors"
	"fmt"
	"math"
)

// Config says where tasks come from: rows of a file, or seeds of the environment.
type Config struct {
	// Path of a JSONL file, one JSON object a task; its rows go to the
	// environment as the task's data. Relative to the recipe. Empty: seeds alone.
	Path string `yaml:"path" json:"path"`
	// EvalPath is the JSONL file of the held-out tasks. With Path and an
	// evaluation, either this or HeldOut is required.
	EvalPath string `yaml:"eval_path" json:"eval_path"`
	// HeldOut keeps the last rows of Path for evaluation. Default 0.
	HeldOut int `yaml:"held_out" json:"held_out"`
	// Seeds of the training tasks, without Path. Default: first 1048576,
	// count 549755813888 (without end, for all purposes).
	Seeds Range `yaml:"seeds" json:"seeds"`
	// EvalSeeds are the seeds of the held-out tasks. Default: first 0, count 1048576.
	EvalSeeds Range `yaml:"eval_seeds" json:"eval_seeds"`
	// Epochs is how often the tasks are gone through. Default 0: without end.
	Epochs int `yaml:"epochs" json:"epochs"`
	// Shuffle gives every epoch another order. Default true.
	Shuffle *bool `yaml:"shuffle" json:"shuffle"`
	// ShuffleSeed decides the orders. Default: the recipe's seed.
	ShuffleSeed *int64 `yaml:"shuffle_seed" json:"shuffle_seed"`
}

// Range is Count whole numbers from First on.
type Range struct {
	// First number.
	First int64 `yaml:"first" json:"first"`
	// Count of numbers.
	Count int64 `yaml:"count" json:"count"`
}

// FieldError is a value that is not allowed: the field's path in YAML's names
// and one line that says what is.
type FieldError struct {
	Field, Msg string
	empty      bool
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Msg }

// Is reports whether the value means that nothing is left to train on: [ErrEmpty].
func (e *FieldError) Is(target error) bool { return e.empty && target == ErrEmpty }

// ErrEmpty is, among others, what a dataset is refused for that has no training task.
var ErrEmpty = errors.New("dataset is empty")

func fieldErrorf(field, format string, args ...any) error {
	return &FieldError{Field: field, Msg: fmt.Sprintf(format, args...)}
}

func emptyf(field, format string, args ...any) error {
	return &FieldError{Field: field, Msg: fmt.Sprintf(format, args...), empty: true}
}

// WithDefaults is the configuration with every default in place. seed is the recipe's.
func (c Config) WithDefaults(seed int64) Config {
	if c.Seeds == (Range{}) {
		c.Seeds = Range{First: 1 << 20, Count: 1 << 39}
	}
	if c.EvalSeeds == (Range{}) {
		c.EvalSeeds = Range{First: 0, Count: 1 << 20}
	}
	if c.Shuffle == nil {
		c.Shuffle = new(true)
	}
	if c.ShuffleSeed == nil {
		c.ShuffleSeed = new(seed)
	}
	return c
}

// Validate reports the first value that is not allowed, as a *FieldError.
// evalTasks is the number of held-out tasks a round plays, 0 without evaluation.
func (c Config) Validate(evalTasks int) error {
	c = c.WithDefaults(0)
	switch {
	case c.Epochs < 0:
		return fieldErrorf("epochs", "%d; want 0 (without end) or more", c.Epochs)
	case c.HeldOut < 0:
		return fieldErrorf("held_out", "%d; want 0 or more", c.HeldOut)
	case c.Path == "" && (c.EvalPath != "" || c.HeldOut > 0):
		return fieldErrorf("path", "missing; eval_path and held_out go with it")
	case c.EvalPath != "" && c.HeldOut > 0:
		return fieldErrorf("held_out", "%d beside eval_path; want one of the two", c.HeldOut)
	case c.Path != "" && evalTasks > 0 && c.EvalPath == "" && c.HeldOut < evalTasks:
		return fieldErrorf("held_out", "%d; evaluation plays %d tasks: want at least that many, or eval_path", c.HeldOut, evalTasks)
	case c.Path != "":
		return nil
	}
	return c.validateSeeds(evalTasks)
}

func (c *Config) validateSeeds(evalTasks int) error {
	for _, r := range []struct {
		name string
		Range
	}{{"seeds", c.Seeds}, {"eval_seeds", c.EvalSeeds}} {
		if r.Count < 1 || r.First > math.MaxInt64-r.Count {
			return fieldErrorf(r.name+".count", "%d from %d on; want 1 or more, ending within 64 bits", r.Count, r.First)
		}
	}
	if c.EvalSeeds.Count < int64(evalTasks) {
		return fieldErrorf("eval_seeds.count", "%d; evaluation plays %d tasks", c.EvalSeeds.Count, evalTasks)
	}
	a, b := c.Seeds, c.EvalSeeds
	if evalTasks > 0 && a.First < b.First+b.Count && b.First < a.First+a.Count {
		return fieldErrorf("eval_seeds", "[%d, %d) overlaps the training seeds [%d, %d): held-out tasks would be trained on",
			b.First, b.First+b.Count, a.First, a.First+a.Count)
	}
	return nil
}
