package calculator

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/headrace/headrace/envs"
)

// maxNumber bounds the numbers of questions and calls, so that no result
// leaves int64.
const maxNumber = 999_999

// operation is a binary operation on integers.
type operation struct {
	left     int64
	operator byte
	right    int64
}

func (o operation) value() int64 {
	switch o.operator {
	case '+':
		return o.left + o.right
	case '-':
		return o.left - o.right
	default:
		return o.left * o.right
	}
}

func (o operation) String() string {
	return strconv.FormatInt(o.left, 10) + string(o.operator) + strconv.FormatInt(o.right, 10)
}

// parseOperation reads "3+4" or " -3 * -4 ". problem is empty, or says for the
// model what is wrong.
func parseOperation(text string) (o operation, problem string) {
	left, rest, ok := parseNumber(text)
	if !ok || rest == "" {
		return o, errExpression
	}
	operator := rest[0]
	if !strings.ContainsRune("+-*", rune(operator)) {
		return o, errOperator
	}
	right, rest, ok := parseNumber(rest[1:])
	if !ok || rest != "" {
		return o, errExpression
	}
	if max(left, -left, right, -right) > maxNumber {
		return o, errTooLarge
	}
	return operation{left, operator, right}, ""
}

// parseNumber reads an integer with spaces around it from the start of text.
func parseNumber(text string) (n int64, rest string, ok bool) {
	text = strings.TrimLeft(text, " ")
	end := 0
	if strings.HasPrefix(text, "-") {
		end = 1
	}
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	// Out of int64 is still a number: too large a one.
	n, err := strconv.ParseInt(text[:end], 10, 64)
	if err != nil && n == 0 {
		return 0, text, false
	}
	return max(n, -maxNumber-1), strings.TrimLeft(text[end:], " "), true
}

// puzzle is a question: one or two operations, each on the result of the one
// before it.
type puzzle []operation

// puzzleTries bounds the search for a question whose results are in range.
const puzzleTries = 10_000

// newPuzzle draws the question of a seed, one that is held out or one that is
// not. It is an error if none turns up whose results the parameters allow.
func newPuzzle(seed int64, heldOut bool, p Params) (puzzle, error) {
	rng := envs.NewRand(seed, 0)
	operations := p.MinOperations + rng.IntN(p.MaxOperations-p.MinOperations+1)
	for range puzzleTries {
		drawn, ok := drawPuzzle(rng, operations, p)
		if ok && envs.HeldOut(drawn.expression()) == heldOut {
			return drawn, nil
		}
	}
	return nil, fmt.Errorf("too few questions of %d operations %s on %d..%d have their results within max_result %d: change operands, operators or max_result",
		operations, p.Operators, p.MinOperand, p.MaxOperand, p.MaxResult)
}

func drawPuzzle(rng *rand.Rand, operations int, p Params) (puzzle, bool) {
	number := func() int64 { return p.MinOperand + rng.Int64N(p.MaxOperand-p.MinOperand+1) }
	value := number()
	drawn := make(puzzle, operations)
	for i := range drawn {
		drawn[i] = operation{value, p.Operators[rng.IntN(len(p.Operators))], number()}
		value = drawn[i].value()
		if value > p.MaxResult || value < -p.MaxResult || value < 0 && !p.Negative {
			return nil, false
		}
	}
	return drawn, true
}

func (p puzzle) answer() int64 { return p[len(p)-1].value() }

// expression is "3+4", or "(3+4)*5".
func (p puzzle) expression() string {
	text := p[0].String()
	for _, o := range p[1:] {
		text = "(" + text + ")" + string(o.operator) + strconv.FormatInt(o.right, 10)
	}
	return text
}

func (p puzzle) question() string { return questionPrefix + p.expression() + questionSuffix }
