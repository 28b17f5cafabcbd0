package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

type (
	// Letter is one line of `headrace deadletter ls`.
	Letter = show.Letter
	// LetterFilter chooses dead letters.
	LetterFilter = show.LetterFilter
	// LetterDetail is all that can be read of a dead letter.
	LetterDetail = show.LetterDetail
)

// DeadLetters lists a run's dead letters, oldest first.
func DeadLetters(ctx context.Context, s Source, run subjects.Run, f LetterFilter) ([]Letter, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := show.FindLetters(ctx, conn, run, f)
	if err != nil {
		return nil, err
	}
	requeued, err := bus.Requeued(ctx, conn, run)
	if err != nil {
		return nil, err
	}
	letters := make([]Letter, len(found))
	for i := range found {
		letters[i] = show.Describe(&found[i], requeued)
	}
	return letters, nil
}

// ShowLetter reads a dead letter.
func ShowLetter(ctx context.Context, s Source, run subjects.Run, number uint64) (*LetterDetail, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	d, l, err := show.ReadLetter(ctx, conn, run, number)
	if err != nil {
		return nil, err
	}
	m, err := join(ctx, conn, run, s.Log)
	if err != nil {
		return nil, err
	}
	cases, err := m.reopen(ctx, &l.Letter)
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		if c.fault != nil && d.Now == "" {
			d.Now = c.fault.Error()
		}
	}
	return d, nil
}

// DropLetters removes the bodies of dead letters, oldest first, and returns
// those that it dropped. What they rejected stays rejected.
func DropLetters(ctx context.Context, s Source, run subjects.Run, f LetterFilter) ([]Letter, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := show.FindLetters(ctx, conn, run, f)
	if err != nil {
		return nil, err
	}
	low, err := lowWatermark(ctx, conn, run)
	if err != nil {
		return nil, err
	}
	var dropped []Letter
	for i := range found {
		l := &found[i]
		if !l.Dropped.IsZero() {
			continue
		}
		if l.Producer != "" {
			l.Header[subjects.HeaderProducer] = []string{l.Producer} // ROLLOUTS may forget it
		}
		now := time.Now()
		err := bus.DropLetter(ctx, conn, run, &l.Letter, low, now)
		if errors.Is(err, bus.ErrStreamFull) {
			err = fmt.Errorf("%w; a group that is open may need it (the ledger needs rollouts from %d on): drop an older one first, or raise the limit of %s", err, low, run.StreamName(subjects.DeadLetter))
		}
		if err != nil {
			return dropped, err
		}
		l.Dropped = now.UTC()
		dropped = append(dropped, show.Describe(l, nil))
	}
	return dropped, nil
}

// lowWatermark is the first sequence of ROLLOUTS that the ledger still needs.
func lowWatermark(ctx context.Context, c *bus.Conn, run subjects.Run) (uint64, error) {
	head, err := bus.Last(ctx, c, run.StreamName(subjects.Ledger), run.LedgerSubject())
	if errors.Is(err, bus.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var e subjects.Entry
	if err := subjects.DecodeMessage(head.Data, &e); err != nil {
		return 0, fmt.Errorf("read ledger entry %d: %w", head.Seq, err)
	}
	return e.Low, nil
}

// IsPermission reports whether a bus refused something to these credentials.
func IsPermission(err error) bool { return errors.Is(err, bus.ErrPermission) }
