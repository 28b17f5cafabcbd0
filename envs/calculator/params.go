package calculator

import (
	"fmt"
	"strings"
)

// Params are the parameters of the questions. The zero value is not useful:
// start from DefaultParams.
type Params struct {
	MinOperations int     `json:"min_operations" doc:"least number of operations in a question, 1 or 2"`
	MaxOperations int     `json:"max_operations" doc:"greatest number of operations in a question, 1 or 2"`
	MinOperand    int64   `json:"min_operand" doc:"least number in a question, 0 to 9999"`
	MaxOperand    int64   `json:"max_operand" doc:"greatest number in a question, 0 to 9999"`
	Operators     string  `json:"operators" doc:"the operators of questions, some of + - *"`
	Negative      bool    `json:"negative" doc:"whether results below zero are asked for"`
	MaxResult     int64   `json:"max_result" doc:"greatest magnitude of any result, 0 to 999999; up to 99 every number is one token of the vocabulary"`
	MaxTurns      int     `json:"max_turns" doc:"turn limit, after which the episode is truncated, 1 to 1000"`
	FormatWeight  float64 `json:"format_weight" doc:"share of the reward that is for well-formed turns instead of the right answer, 0 to 1"`
}

// DefaultParams are two operations on 2..9 with results in 0..99, in at most
// four turns, and reward for the answer alone.
func DefaultParams() Params {
	return Params{
		MinOperations: 2, MaxOperations: 2, MinOperand: 2, MaxOperand: 9,
		Operators: "+-*", MaxResult: 99, MaxTurns: 4,
	}
}

func (p *Params) validate() error {
	switch {
	case p.MinOperations < 1 || p.MaxOperations > 2 || p.MinOperations > p.MaxOperations:
		return fmt.Errorf("parameters min_operations %d, max_operations %d: want 1 to 2, least first", p.MinOperations, p.MaxOperations)
	case p.MinOperand < 0 || p.MaxOperand > 9999 || p.MinOperand > p.MaxOperand:
		return fmt.Errorf("parameters min_operand %d, max_operand %d: want 0 to 9999, least first", p.MinOperand, p.MaxOperand)
	case p.Operators == "" || strings.Trim(p.Operators, "+-*") != "":
		return fmt.Errorf("parameter operators: want some of + - *, not %q", p.Operators)
	case p.MaxResult < 0 || p.MaxResult > maxNumber:
		return fmt.Errorf("parameter max_result: want 0 to %d, not %d", maxNumber, p.MaxResult)
	case p.MaxTurns < 1 || p.MaxTurns > 1000:
		return fmt.Errorf("parameter max_turns: want 1 to 1000, not %d", p.MaxTurns)
	case !(p.FormatWeight >= 0 && p.FormatWeight <= 1):
		return fmt.Errorf("parameter format_weight: want 0 to 1, not %g", p.FormatWeight)
	}
	return p.checkPuzzles()
}

// checkPuzzles makes sure that there are questions of every length allowed,
// held out and not.
func (p *Params) checkPuzzles() error {
	for n := p.MinOperations; n <= p.MaxOperations; n++ {
		one := *p
		one.MinOperations, one.MaxOperations = n, n
		for _, heldOut := range []bool{false, true} {
			if _, err := newPuzzle(0, heldOut, one); err != nil {
				return err
			}
		}
	}
	return nil
}
