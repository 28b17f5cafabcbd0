package frozenlake

import (
	"strconv"
	"strings"
)

// system is the system prompt.
const system = "You walk on a frozen lake. Reach the goal, avoid holes. Answer up, down, left or right."

const (
	invalidPrefix = "invalid, "
	goalPrefix    = "goal at "
	gridPrefix    = "map\n"
	wallText      = "wall"
)

// cellTexts are the cells as a reader sees them; a start is ice.
var cellTexts = map[byte]string{startCell: "ice", iceCell: "ice", holeCell: "hole", goalCell: "goal"}

// vocabulary lists the phrases of the text above as tokenizer pieces: an
// observation of the kind "near" is seven tokens, an action one.
func vocabulary() []string {
	pieces := []string{system, invalidPrefix, goalPrefix, gridPrefix, "goal", "hole"}
	for _, m := range reading {
		pieces = append(pieces, words[m])
	}
	for _, m := range reading {
		for _, cell := range []string{wallText, "ice", "hole", "goal"} {
			pieces = append(pieces, neighbourText(m, cell))
		}
	}
	for n := range 8 {
		for _, m := range []move{up, down} {
			pieces = append(pieces, rowsText(n, m))
		}
		for _, m := range []move{left, right} {
			pieces = append(pieces, colsText(n, m))
		}
	}
	return pieces
}

func neighbourText(m move, cell string) string { return words[m] + ": " + cell + ", " }
func rowsText(n int, m move) string            { return strconv.Itoa(n) + " " + words[m] + ", " }
func colsText(n int, m move) string            { return strconv.Itoa(n) + " " + words[m] }

// near tells the four neighbouring cells and where the goal is, always in the
// same order, so that every observation has the same number of tokens:
// "up: wall, down: ice, left: wall, right: hole, goal at 3 down, 3 right".
func (b *board) near(cell int) string {
	var text strings.Builder
	for _, m := range reading {
		what := wallText
		if next, ok := b.neighbour(cell, m); ok {
			what = cellTexts[b.cells[next]]
		}
		text.WriteString(neighbourText(m, what))
	}
	rows, cols := b.toGoal(cell)
	text.WriteString(goalPrefix)
	if rows > 0 {
		text.WriteString(rowsText(rows, down))
	} else {
		text.WriteString(rowsText(-rows, up))
	}
	if cols > 0 {
		text.WriteString(colsText(cols, right))
	} else {
		text.WriteString(colsText(-cols, left))
	}
	return text.String()
}

// grid tells the whole map, the player as P.
func (b *board) grid(cell int) string {
	text := []byte(gridPrefix)
	for i, c := range b.cells {
		switch {
		case i == cell:
			c = 'P'
		case c == startCell:
			c = iceCell
		}
		if i > 0 && i%b.cols == 0 {
			text = append(text, '\n')
		}
		text = append(text, c)
	}
	return string(text)
}

// toGoal is how many rows down and columns right the goal lies, as the crow
// flies; of several goals the nearest, and of those the first.
func (b *board) toGoal(cell int) (rows, cols int) {
	best := -1
	for i, c := range b.cells {
		if c != goalCell {
			continue
		}
		r, k := i/b.cols-cell/b.cols, i%b.cols-cell%b.cols
		if d := abs(r) + abs(k); best < 0 || d < best {
			best, rows, cols = d, r, k
		}
	}
	return rows, cols
}

func abs(x int) int { return max(x, -x) }
