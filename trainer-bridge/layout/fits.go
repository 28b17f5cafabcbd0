package layout

import (
	"fmt"

	"github.com/headrace/headrace/subjects"
)

// Fits reports, with reasons, whether a trajectory's segments can be rows of any
// batch: each is no longer than the longest row, or overflow says what becomes of
// it, and there are at most most of them (0: as many as there may be rows). What
// does not fit would stop the run at the batch it is in.
func (c Config) Fits(segments []subjects.SegmentView, most int) error {
	c = c.WithDefaults()
	if most == 0 {
		most = c.MaxRows
	}
	if len(segments) > most {
		return fmt.Errorf("%d segments, a batch has room for %d of each trajectory: raise max_rows", len(segments), most)
	}
	if c.Overflow != OverflowError {
		return nil
	}
	for i := range segments {
		if err := c.fits(i, &segments[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) fits(i int, s *subjects.SegmentView) error {
	prompt, n := 0, s.Len()
	if c.Layout == PromptCompletion {
		prompt = firstSampled(s)
	}
	w := Writer{cfg: *c}
	err := w.checkLength(i, "prompt", prompt, c.PromptTokens)
	if err == nil {
		err = w.checkLength(i, "segment", n-prompt, c.longest())
	}
	return err
}
