package app

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// watch folds a run's ledger, weights events and gauges into the board until
// ctx ends. It is a tap: nothing in the run can tell that it is there.
func watch(ctx context.Context, c *bus.Conn, run subjects.Run, board *Board) error {
	g, ctx := errgroup.WithContext(ctx)
	follow := func(s subjects.Stream, from uint64, fold func(*bus.Msg)) {
		g.Go(func() error {
			return bus.Follow(ctx, c, run.StreamName(s), run.Filter(s), from, func(m *bus.Msg) error {
				fold(m)
				return nil
			})
		})
	}
	follow(subjects.Ledger, 1, func(m *bus.Msg) { foldLedger(board, m) })
	follow(subjects.Weights, 1, func(m *bus.Msg) { foldWeights(board, m) })
	follow(subjects.Telemetry, telemetryStart(ctx, c, run), func(m *bus.Msg) { foldGauges(run, board, m) })
	return g.Wait()
}

// telemetryStart is the next sequence of TELEMETRY: only what is now matters.
func telemetryStart(ctx context.Context, c *bus.Conn, run subjects.Run) uint64 {
	s, err := bus.StreamState(ctx, c, run, subjects.Telemetry)
	if err != nil {
		return 1
	}
	return s.LastSeq + 1
}

// What cannot be decoded is left out of the picture: a board decides nothing.

func foldLedger(board *Board, m *bus.Msg) {
	var e subjects.Entry
	if subjects.DecodeMessage(m.Data, &e) == nil {
		board.Entry(&e)
	}
}

func foldGauges(run subjects.Run, board *Board, m *bus.Msg) {
	if watchdog, _ := strings.CutSuffix(run.TelemetrySubject(subjects.WatchdogRole, "*"), "*"); strings.HasPrefix(m.Subject, watchdog) {
		fold(m, board.Stands)
		return
	}
	var g subjects.Gauges
	if !subjects.IsSpans(m.Subject) && subjects.DecodeMessage(m.Data, &g) == nil {
		board.Report(&g)
	}
}

func foldWeights(board *Board, m *bus.Msg) {
	kind := m.Subject[strings.Index(m.Subject, ".weights.")+len(".weights."):]
	switch kind, _, _ := strings.Cut(kind, "."); subjects.WeightsEvent(kind) {
	case subjects.EventCommit:
		fold(m, board.Commit)
	case subjects.EventVersion:
		fold(m, board.Version)
	case subjects.EventResumed:
		fold(m, board.ResumedTrainer)
	case "ack":
		fold(m, board.Ack)
	}
}

func fold[T any](m *bus.Msg, into func(*T)) {
	var e T
	if subjects.DecodeMessage(m.Data, &e) == nil {
		into(&e)
	}
}
