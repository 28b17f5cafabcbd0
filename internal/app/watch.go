package app

import (
	"context"

	"github.com/headrace/headrace/consumers/board/tap"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// watch folds a run's streams into the board until ctx ends. Nothing in the run
// can tell that it is there.
func watch(ctx context.Context, c *bus.Conn, run subjects.Run, board *Board) error {
	return tap.Follow(ctx, c, run, board.Board, nil)
}

func foldLedger(board *Board, m *bus.Msg) {
	board.Fold(subjects.Ledger, m.Subject, m.Data, m.Time)
}

func foldWeights(board *Board, m *bus.Msg) {
	board.Fold(subjects.Weights, m.Subject, m.Data, m.Time)
}
