package layout

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// Kind names a layout.
type Kind string

// The layouts.
const (
	Padded           Kind = "padded"
	Packed           Kind = "packed"
	PromptCompletion Kind = "prompt_completion"
)

// Overflow says what becomes of a segment that is longer than its row.
type Overflow string

// The policies for segments that do not fit.
const (
	// OverflowError refuses the batch: the run stops and names the trajectory.
	OverflowError Overflow = "error"
	// OverflowMask keeps the leading tokens and takes them all out of the loss.
	OverflowMask Overflow = "mask"
	// OverflowCut keeps the leading tokens and trains on them: each still has
	// the context that it was sampled in. A prompt that does not fit would
	// not, so such a row is masked.
	OverflowCut Overflow = "cut"
)

// Config chooses the arrays that a trainer gets.
type Config struct {
	// Layout is padded (default), packed or prompt_completion.
	Layout Kind `yaml:"layout" json:"layout"`
	// Buckets are the row lengths in tokens, ascending: a batch takes the
	// smallest that holds its longest segment (prompt_completion: its longest
	// completion). Each is one compilation of the trainer. Default 256, 512,
	// 1024, 2048, 4096. packed does not use them.
	Buckets []int `yaml:"buckets" json:"buckets"`
	// RowTokens is the length of a packed row. Default 4096. packed only.
	RowTokens int `yaml:"row_tokens" json:"row_tokens"`
	// PromptTokens is the length P of the prompt. Default 256. prompt_completion only.
	PromptTokens int `yaml:"prompt_tokens" json:"prompt_tokens"`
	// Rows is the unit of the row count: a batch is padded with empty rows up
	// to a multiple of it. Set to the usual size of a batch, it gives one
	// shape. Default 8.
	Rows int `yaml:"rows" json:"rows"`
	// MaxRows bounds the rows of a batch and with them the size of a slot;
	// memory is used only for rows that exist. Default four times Rows, at
	// least 1024.
	MaxRows int `yaml:"max_rows" json:"max_rows"`
	// Slots is the number of batches in memory: one that the trainer works on,
	// the others prepared ahead. Default 3, at least 2.
	Slots int `yaml:"slots" json:"slots"`
	// TokenVersions adds the array versions: the policy version of each token,
	// 4 bytes a token. Default false.
	TokenVersions bool `yaml:"token_versions" json:"token_versions"`
	// PadID fills cells without a token. Default 0. Reserve it: trainers build
	// attention from it.
	PadID int32 `yaml:"pad_id" json:"pad_id"`
	// Overflow is what becomes of segments longer than a row: error (default),
	// mask or cut.
	Overflow Overflow `yaml:"overflow" json:"overflow"`
}

const (
	defaultRowTokens    = 4096
	defaultPromptTokens = 256
	defaultRows         = 8
	leastMaxRows        = 1024
	defaultSlots        = 3
	maxSlots            = 64
	maxSlotBytes        = 64 << 30 // of address space; pages are used as rows are
)

// WithDefaults returns c with every zero field set to its default.
func (c Config) WithDefaults() Config {
	c.Layout = cmp.Or(c.Layout, Padded)
	if len(c.Buckets) == 0 {
		c.Buckets = []int{256, 512, 1024, 2048, 4096}
	}
	c.RowTokens = cmp.Or(c.RowTokens, defaultRowTokens)
	c.PromptTokens = cmp.Or(c.PromptTokens, defaultPromptTokens)
	c.Rows = cmp.Or(c.Rows, defaultRows)
	c.MaxRows = cmp.Or(c.MaxRows, max(leastMaxRows, 4*c.Rows))
	c.Slots = cmp.Or(c.Slots, defaultSlots)
	c.Overflow = cmp.Or(c.Overflow, OverflowError)
	return c
}

// FieldError is a value of a configuration field that is not allowed.
type FieldError struct {
	Field string // as in the recipe
	Msg   string // what is allowed
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Msg }

// Validate reports the first field, as a [*FieldError], whose value is not
// allowed. Zero fields stand for their defaults.
func (c Config) Validate() error {
	c = c.WithDefaults()
	in := func(field string, v, low, high int) error {
		if v < low || v > high {
			return &FieldError{field, fmt.Sprintf("%d is not in %d to %d", v, low, high)}
		}
		return nil
	}
	return cmp.Or(
		oneOf("layout", c.Layout, Padded, Packed, PromptCompletion),
		oneOf("overflow", c.Overflow, OverflowError, OverflowMask, OverflowCut),
		c.checkBuckets(),
		in("row_tokens", c.RowTokens, 2, subjects.MaxTokens),
		in("prompt_tokens", c.PromptTokens, 1, subjects.MaxTokens),
		in("rows", c.Rows, 1, 1<<20),
		in("max_rows", c.MaxRows, c.Rows, 1<<22),
		in("slots", c.Slots, 2, maxSlots),
		in("pad_id", int(c.PadID), 0, 1<<31-1),
		c.checkSize(),
	)
}

func oneOf[T ~string](field string, v T, allowed ...T) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	return &FieldError{field, fmt.Sprintf("%q is not one of %v", v, allowed)}
}

func (c Config) checkBuckets() error {
	for i, b := range c.Buckets {
		if b < 2 || b > subjects.MaxTokens || i > 0 && b <= c.Buckets[i-1] {
			return &FieldError{"buckets", fmt.Sprintf("%v: want ascending lengths of 2 to %d tokens", c.Buckets, subjects.MaxTokens)}
		}
	}
	return nil
}

func (c Config) checkSize() error {
	if n := c.SlotBytes(); n > maxSlotBytes {
		return &FieldError{"max_rows", fmt.Sprintf("%d rows of the longest bucket need %d GiB a slot, the limit is %d", c.MaxRows, n>>30, maxSlotBytes>>30)}
	}
	return nil
}

// SlotBytes is the size of the largest batch in bytes, a multiple of a page.
func (c Config) SlotBytes() int {
	c = c.WithDefaults()
	const page = 4096
	return (c.shape(c.MaxRows, c.longest()).bytes() + page - 1) / page * page
}

// longest is the greatest row length, of completions in prompt_completion.
func (c *Config) longest() int {
	if c.Layout == Packed {
		return c.RowTokens
	}
	return c.Buckets[len(c.Buckets)-1]
}

// bucket is the smallest row length that holds n tokens, else the longest.
func (c *Config) bucket(n int) int {
	for _, b := range c.Buckets {
		if b >= n {
			return b
		}
	}
	return c.longest()
}
