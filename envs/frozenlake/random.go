package frozenlake

import (
	"fmt"

	"github.com/headrace/headrace/envs"
)

// Streams of a task's seed.
const (
	streamMap = iota
	streamStart
	streamPlayers
)

// randomTries bounds the search for a map: at the default parameters one map
// in two will do.
const randomTries = 20_000

// randomBoard draws the map of a seed: a start and a goal anywhere, every
// other cell a hole with the given probability, again until the goal is
// MinDistance to MaxTurns-1 moves from the start. It is an error if no such
// map turns up.
func randomBoard(seed int64, p Params) (*board, error) {
	rng := envs.NewRand(seed, streamMap)
	n := p.Size * p.Size
	b := &board{rows: p.Size, cols: p.Size, cells: make([]byte, n)}
	for range randomTries {
		start, goal := rng.IntN(n), rng.IntN(n-1)
		if goal >= start {
			goal++
		}
		for i := range b.cells {
			b.cells[i] = iceCell
			if rng.Float64() < p.Holes {
				b.cells[i] = holeCell
			}
		}
		b.cells[start], b.cells[goal] = startCell, goalCell
		if d := b.distances()[start]; d >= p.MinDistance && d < p.MaxTurns {
			return b, nil
		}
	}
	return nil, fmt.Errorf("no map of size %d with holes %g has its goal %d to %d moves away (%d drawn): change size, holes, min_distance or max_turns",
		p.Size, p.Holes, p.MinDistance, p.MaxTurns-1, randomTries)
}
