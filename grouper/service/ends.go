package service

import (
	"context"
	"fmt"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Ended is the error of a run that ended before it had done what it was for.
type Ended struct {
	Reason string // one of [subjects.EndNoProducers] and its like
	Text   string // the sentence
}

func (e *Ended) Error() string {
	if e.Text == "" || e.Text == e.Reason {
		return "the run ended: " + e.Reason
	}
	return fmt.Sprintf("the run ended (%s): %s", e.Reason, e.Text)
}

// End ends a run that cannot be grouped for the reason, as Run would. It returns
// an [*Ended], or why the end could not be written.
func End(ctx context.Context, cfg Config, why, text string) error {
	cfg.finish = &wish{why, text}
	return Run(ctx, cfg)
}

// over does what is left to do once the ledger has the end: no task stays in the
// queue. It returns an [*Ended] where the run did not do what it was for.
func (s *service) over(ctx context.Context) error {
	if n, err := bus.DropTasks(ctx, s.cfg.Conn, s.cfg.Run); err != nil {
		s.cfg.Log.Warn().Err(err).Msg("tasks of the run that ended stay in the queue")
	} else if n > 0 {
		s.cfg.Log.Info().Int("tasks", n).Msg("tasks taken back")
	}
	last, err := bus.Last(ctx, s.cfg.Conn, s.cfg.Run.StreamName(subjects.Ledger), s.cfg.Run.LedgerSubject())
	if err != nil {
		return fmt.Errorf("read the end of the ledger: %w", err)
	}
	r, err := record(last)
	if err != nil || subjects.Achieved(r.Entry.End) {
		return err
	}
	return &Ended{r.Entry.End, r.Entry.EndText}
}
