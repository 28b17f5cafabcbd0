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

// BoardState is the board as it was, with its steps.
type BoardState struct {
	board.State
	Began time.Time // when the user started it
	Cut   int64     // steps whose batch is in the ledger
	Rows  board.Steps
}

// NewBoard is an empty board for a run of maxSteps steps that was started then.
func NewBoard(started time.Time, maxSteps int64) *Board {
	return &Board{board.New(board.Config{Started: started, MaxSteps: maxSteps, Advise: advise.Rules}), started}
}

// State is a copy of the facts as they are now.
func (b *Board) State() BoardState {
	s := BoardState{State: b.Board.State(time.Now()), Began: b.began, Rows: b.Steps(1)}
	s.Cut = s.Step.Cut
	return s
}

// Committed is the last step the trainer applied.
func (s *BoardState) Committed() int64 { return s.Step.Committed }

// FirstStep is when step 1 was committed; zero before.
func (s *BoardState) FirstStep() time.Time {
	if r := &s.Rows; r.Len() > 0 && r.Step[0] == 1 && r.Committed[0] {
		return time.Unix(0, int64(r.At[0]*1e9))
	}
	return time.Time{}
}

// Recent averages a column over the last n committed steps; ok is false without one.
func (s *BoardState) Recent(n int, column board.Column) (mean float64, ok bool) {
	return s.Rows.Recent(n, column)
}

// WaitFraction is the part of the trainer's time that it waited for a batch, as
// [board.Board.State] has it; 0 while that is unknown.
func (s *BoardState) WaitFraction() float64 { return s.Trainer.Wait.Or(0) }
