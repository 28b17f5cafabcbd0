package layout

import (
	"fmt"
	"math"
)

// Writer fills slots with batches. It keeps scratch memory between calls and
// is for one goroutine at a time.
type Writer struct {
	cfg   Config
	fixed constants
	order []int // packing: rows by length
	bins  []bin
	homes []home
}

// NewWriter makes a writer; the configuration's zero fields take their defaults.
func NewWriter(cfg Config) (*Writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check layout: %w", err)
	}
	cfg = cfg.WithDefaults()
	return &Writer{cfg: cfg, fixed: newConstants(max(cfg.longest(), cfg.PromptTokens), cfg.PadID)}, nil
}

// Config is the writer's configuration, with defaults.
func (w *Writer) Config() Config { return w.cfg }

// NeedsBodies reports whether the shape of a batch depends on more than the
// lengths of its rows, so that every part must see every segment.
// forked says that a trajectory of the batch has several segments.
func (c Config) NeedsBodies(forked bool) bool {
	return c.Layout == PromptCompletion || c.Layout == Packed && forked
}

// Fill writes the part of a batch that rows describe into slot. Equal
// arguments give equal bytes and every byte of Filled.Bytes is written,
// whatever the slot held. Errors: [*LengthError], [*RowsError].
func (w *Writer) Fill(slot []byte, rows []Row, part Part) (Filled, error) {
	switch w.cfg.Layout {
	case Packed:
		return w.packed(slot, rows, part)
	case PromptCompletion:
		return w.promptCompletion(slot, rows, part)
	}
	return w.padded(slot, rows, part)
}

// open fixes the arrays of a batch that needs the given number of rows and
// returns them with the part's window of rows.
func (w *Writer) open(slot []byte, rows, length int, part Part) (s shape, first, end int, err error) {
	if first, end, err = w.window(rows, part); err != nil {
		return nil, 0, 0, err
	}
	s = w.cfg.shape(end-first, length)
	if n := s.bytes(); n > len(slot) {
		return nil, 0, 0, fmt.Errorf("batch of %d bytes in a slot of %d", n, len(slot))
	}
	return s, first, end, nil
}

// fit applies the overflow policy to n tokens in a place for limit.
func (w *Writer) fit(n, limit int) (kept int, masked, over bool) {
	if n <= limit {
		return n, false, false
	}
	return limit, w.cfg.Overflow == OverflowMask, true
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

func f32(v float32) uint32 { return math.Float32bits(v) }
