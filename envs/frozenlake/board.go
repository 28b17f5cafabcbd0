package frozenlake

import "fmt"

// move is an action by Gymnasium's number.
type move int

const (
	left move = iota
	down
	right
	up
)

// words are the moves as a model writes them, by number.
var words = [4]string{"left", "down", "right", "up"}

// reading is the order in which moves are told to a reader.
var reading = [4]move{up, down, left, right}

// Letters of a map.
const (
	startCell = 'S'
	iceCell   = 'F'
	holeCell  = 'H'
	goalCell  = 'G'
)

// board is a map: its cells row by row. It does not change once made, so
// environments share it.
type board struct {
	rows, cols int
	cells      []byte
}

// newBoard checks and copies a map given as rows of the letters S, F, H, G.
func newBoard(rows []string) (*board, error) {
	b := &board{rows: len(rows)}
	count := map[byte]int{}
	for i, row := range rows {
		if i == 0 {
			b.cols = len(row)
		}
		if len(row) != b.cols {
			return nil, fmt.Errorf("row %d has %d cells, row 1 has %d", i+1, len(row), b.cols)
		}
		for _, c := range []byte(row) {
			if c != startCell && c != iceCell && c != holeCell && c != goalCell {
				return nil, fmt.Errorf("row %d has %q: allowed are S, F, H, G", i+1, c)
			}
			count[c]++
		}
		b.cells = append(b.cells, row...)
	}
	if count[startCell] == 0 || count[goalCell] == 0 {
		return nil, fmt.Errorf("needs at least one S and one G")
	}
	return b, nil
}

// neighbour is the cell that a move leads to and whether it is on the map; at
// the edge the player stays.
func (b *board) neighbour(cell int, m move) (int, bool) {
	row, col := cell/b.cols, cell%b.cols
	switch {
	case m == left && col > 0:
		return cell - 1, true
	case m == down && row < b.rows-1:
		return cell + b.cols, true
	case m == right && col < b.cols-1:
		return cell + 1, true
	case m == up && row > 0:
		return cell - b.cols, true
	}
	return cell, false
}

// ends reports whether reaching a cell ends the episode.
func (b *board) ends(cell int) bool {
	return b.cells[cell] == goalCell || b.cells[cell] == holeCell
}

// find returns the cells with a letter.
func (b *board) find(letter byte) []int {
	var found []int
	for i, c := range b.cells {
		if c == letter {
			found = append(found, i)
		}
	}
	return found
}

// distances gives for every cell the least number of moves to a goal without
// touching a hole; -1 where there is no way.
func (b *board) distances() []int {
	dist := make([]int, len(b.cells))
	for i := range dist {
		dist[i] = -1
	}
	queue := b.find(goalCell)
	for _, g := range queue {
		dist[g] = 0
	}
	for len(queue) > 0 {
		cell := queue[0]
		queue = queue[1:]
		for _, m := range reading {
			next, ok := b.neighbour(cell, m)
			if ok && dist[next] < 0 && b.cells[next] != holeCell {
				dist[next] = dist[cell] + 1
				queue = append(queue, next)
			}
		}
	}
	return dist
}
