package app

import (
	"time"

	"github.com/headrace/headrace/consumers/advise"
	"github.com/headrace/headrace/consumers/board"
)

// Board is the picture of a run that the progress lines, the summary and
// `headrace show` are made of: the one that `headrace top` and the pages show.
type Board struct {
	*board.Board
	began time.Time
}

// BoardState is the board as it was, with its last steps.
type BoardState struct {
	board.State
	Began time.Time   // when the user started it
	Cut   int64       // steps whose batch is in the ledger
	Rows  board.Steps // the last ones: a view is drawn twice a second

	board *board.Board
}

// viewedRows is how many steps a view has.
const viewedRows = 4 * recentSteps

// NewBoard is an empty board for a run of maxSteps steps that was started then.
func NewBoard(started time.Time, maxSteps int64) *Board {
	return &Board{board.New(board.Config{Started: started, MaxSteps: maxSteps, Advise: advise.Rules}), started}
}

// State is a copy of the facts as they are now.
func (b *Board) State() BoardState {
	s := BoardState{State: b.Board.State(time.Now()), Began: b.began, board: b.Board}
	s.Cut, s.Rows = s.Step.Cut, b.Steps(s.Step.Cut-viewedRows)
	return s
}

// AllRows are all steps that the board remembers.
func (s *BoardState) AllRows() board.Steps { return s.board.Steps(1) }

// Committed is the last step the trainer applied.
func (s *BoardState) Committed() int64 { return s.Step.Committed }

// Recent averages a column over the last n committed steps; ok is false without one.
func (s *BoardState) Recent(n int, column board.Column) (mean float64, ok bool) {
	return s.Rows.Recent(n, column)
}

// WaitFraction is the part of the trainer's time that it waited for a batch, as
// [board.Board.State] has it; 0 while that is unknown.
func (s *BoardState) WaitFraction() float64 { return s.Trainer.Wait.Or(0) }
