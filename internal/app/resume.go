package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/headrace/headrace/internal/bus"
)

// ensureRecord writes the record of a new run. A resumed one has it, unless it
// was killed before that: then it is as good as new.
func (u *up) ensureRecord(ctx context.Context, conn *bus.Conn) error {
	if u.o.Resume {
		_, err := bus.LookupRun(ctx, conn, u.run)
		if !errors.Is(err, bus.ErrNotFound) {
			return err
		}
		if !u.dir.untrained() {
			return fmt.Errorf("%w: the store in %s knows no run %s, and there are checkpoints: was the folder copied or renamed? Give it its old name", ErrNothingToResume, u.dir, u.run)
		}
	}
	return createRecord(ctx, conn, u.run, u.recipe)
}

// ended sums up a run that is resumed though it has come to its end; nil when
// there is something to go on with.
func (u *up) ended(ctx context.Context) (*Summary, error) {
	if !u.o.Resume {
		return nil, nil
	}
	s, state, err := u.member.sum(ctx)
	if err != nil || state.End == "" || state.Committed() < state.Cut {
		return nil, err
	}
	u.log.Warn().Str("run", string(u.run)).Str("end", state.End).Msg("the run has ended already: there is nothing to go on with")
	return s, state.endError()
}

// discard removes the folder of a run that never was: its name is free again.
func (u *up) discard() {
	if !u.made || u.entered {
		return
	}
	if err := os.RemoveAll(string(u.dir)); err != nil {
		u.log.Warn().Err(err).Msg("the folder of a run that did not start is left over")
	}
}
