// Package watchdog says why a run stands still: which stage holds it up, the
// most specific cause that can be seen, and since when.
//
// One idea explains its shape: it is a function of a picture and the time. What
// the grouper waits for, what was heard of producers, engines and the trainer's
// bridge, and when, is put into a [Picture] by who can see it; what follows from
// it is decided here, without a clock or a broker, and tested as a table.
package watchdog

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/grouper"
)

// Config says when a run that stands still is a matter for people, and when it
// is over.
type Config struct {
	// After is how long nothing moves, or no batch comes although things move, before
	// the watchdog says which stage is stuck and why: in the log, on the bus and to
	// the trainer, again as often while it lasts. Default 60s, at least 1s.
	After time.Duration `yaml:"after" json:"after"`
	// EndAfter ends a run that has stood still this long for want of producers,
	// engines or room, or because every group is dropped: with that reason, its
	// open groups cancelled. At least After. Default 0: never, it is waited for help.
	EndAfter time.Duration `yaml:"end_after" json:"end_after"`
}

const defaultAfter = time.Minute

// WithDefaults is the configuration with every default in place.
func (c Config) WithDefaults() Config {
	if c.After == 0 {
		c.After = defaultAfter
	}
	return c
}

// Validate reports the first value that is not allowed, as a [grouper.FieldError].
func (c Config) Validate() error {
	c = c.WithDefaults()
	switch {
	case c.After < time.Second:
		return &grouper.FieldError{Field: "after", Msg: fmt.Sprintf("%v; want at least 1s", c.After)}
	case c.EndAfter != 0 && c.EndAfter < c.After:
		return &grouper.FieldError{Field: "end_after", Msg: fmt.Sprintf("%v; want 0 (never), or at least after (%v): a run is not ended before it is said why", c.EndAfter, c.After)}
	}
	return nil
}
