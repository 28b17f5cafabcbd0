package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/headrace/headrace/grouper/dataset"
	group "github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/subjects"
)

// checkDataset refuses a recipe whose dataset cannot be read, or has nothing to
// play, before anything is started.
func checkDataset(file string, r *recipe.Recipe) error {
	tasks := 0
	if r.Grouper.Evaluation.Every > 0 {
		tasks = r.Grouper.Evaluation.Tasks
	}
	_, err := dataset.Open(r.Dataset, tasks, r.Seed)
	var field *dataset.FieldError
	if errors.As(err, &field) {
		return &recipe.Error{File: file, Field: "dataset." + field.Field, Msg: field.Msg}
	}
	return err
}

// endError is nil for a run that has not ended or did what it was for, else why it ended.
func (s *BoardState) endError() error {
	if s.End == "" || subjects.Achieved(s.End) {
		return nil
	}
	return &group.Ended{Reason: s.End, Text: s.EndText}
}

// ending is why the run of a trainer that is done ended, nil when it did what it
// was for. One whose end the ledger has no room for can be gone on with.
func (u *up) ending(s *BoardState) error {
	if ended := u.end.Load(); s.End == "" && ended != nil {
		return fmt.Errorf("%w (the run is kept: go on with `%s`)", ended, u.again())
	}
	return s.endError()
}

// grouperEnded notes an end that is not a failure of the grouper: the trainer is
// to hear of it, and then the program is over.
func (u *up) grouperEnded(err error) error {
	var ended *group.Ended
	if errors.As(err, &ended) {
		u.end.Store(ended)
		return nil
	}
	return err
}

// EndRun tells a run's roles that it is over, and returns why it ended: what it
// had ended for before, or cancelled. Its grouper writes the end of the ledger.
func EndRun(ctx context.Context, j Join) (reason string, err error) {
	err = j.with(ctx, "runs end", func(m *member) error {
		if m.record.Ended == "" {
			if err := bus.EndRun(ctx, m.conn, m.run, subjects.EndCancelled); err != nil {
				return err
			}
		}
		reason, err = bus.AwaitRunEnd(ctx, m.conn, m.run)
		return err
	})
	return reason, err
}
