package layout

import (
	"fmt"

	"github.com/headrace/headrace/subjects"
)

// Row is one segment of a batch. Its segment must have passed
// [subjects.BodyView.Check].
type Row struct {
	// Segment may be nil for a row of another part, where [Config.NeedsBodies]
	// is false.
	Segment *subjects.SegmentView
	// Tokens is the segment's length; where Segment is nil, a bound on it that
	// does not exceed the longest of the batch.
	Tokens int
	// Advantage of every trained token, Reward of the trajectory.
	Advantage, Reward float32
	// Group is the index of its group in the batch.
	Group int32
	// Masked rows keep their place, with a loss mask of zero.
	Masked bool
}

// Part is the share of one host: Rank of World equal, contiguous ranges of rows.
// The zero Part is the whole batch.
type Part struct{ Rank, World int }

func (p Part) world() int { return max(p.World, 1) }

// window is the part's range of n rows; n is a multiple of the world.
func (p Part) window(n int) (first, end int) {
	size := n / p.world()
	return p.Rank * size, (p.Rank + 1) * size
}

// Validate reports whether the rank is one of the world.
func (p Part) Validate() error {
	if p.Rank < 0 || p.Rank >= p.world() || p.World > 1<<16 {
		return fmt.Errorf("rank %d of world %d", p.Rank, p.World)
	}
	return nil
}

// Filled says what a slot holds.
type Filled struct {
	Arrays []Array
	// Bytes of the slot that are in use.
	Bytes int
	// First is the batch's row that the part begins with; Rows counts the
	// part's rows and Tokens their tokens, padding not counted.
	First, Rows, Tokens int
	// Overflowed counts rows that were cut or masked for their length.
	Overflowed int
}

// LengthError is a segment that does not fit its row under [OverflowError].
type LengthError struct {
	Row    int    // of the batch
	Part   string // what is too long: "segment", "prompt", "completion"
	Tokens int
	Limit  int
	Field  string // the configuration field that holds the limit
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("%s of row %d has %d tokens, %s allow %d: raise %s, or set overflow to cut or mask",
		e.Part, e.Row, e.Tokens, e.Field, e.Limit, e.Field)
}

// RowsError is a batch with more rows than a slot holds.
type RowsError struct{ Rows, Limit int }

func (e *RowsError) Error() string {
	return fmt.Sprintf("batch needs %d rows, max_rows allows %d", e.Rows, e.Limit)
}
