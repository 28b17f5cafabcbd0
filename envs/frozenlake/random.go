package frozenlake

import (
	"fmt"
	"math/rand/v2"

	"github.com/headrace/headrace/envs"
)

// Streams of a task's seed.
const (
	streamMap = iota
	streamStart
	streamPlayers
)

// randomTries bounds the search for a map: at the default parameters three
// maps in four will do, and an eighth of those are held out.
const randomTries = 20_000

// randomBoard draws the map of a seed: a start and a goal anywhere, every
// other cell a hole with the given probability, again until the goal is
// MinDistance to MaxTurns-1 moves from the start and the map is held out, or
// not, as asked. It is an error if no such map turns up.
func randomBoard(seed int64, heldOut bool, p Params) (*board, error) {
	rng := envs.NewRand(seed, streamMap)
	b := &board{rows: p.Size, cols: p.Size, cells: make([]byte, p.Size*p.Size)}
	for range randomTries {
		start := b.scatter(rng, p.Holes)
		if d := b.distances()[start]; d < p.MinDistance || d >= p.MaxTurns {
			continue
		}
		if envs.HeldOut(string(b.cells)) == heldOut {
			return b, nil
		}
	}
	return nil, fmt.Errorf("too few maps of size %d with holes %g have their goal %d to %d moves away (%d drawn): change size, holes, min_distance or max_turns",
		p.Size, p.Holes, p.MinDistance, p.MaxTurns-1, randomTries)
}

// scatter draws start, goal and holes anew and returns the start.
func (b *board) scatter(rng *rand.Rand, holes float64) (start int) {
	n := len(b.cells)
	start, goal := rng.IntN(n), rng.IntN(n-1)
	if goal >= start {
		goal++
	}
	for i := range b.cells {
		b.cells[i] = iceCell
		if rng.Float64() < holes {
			b.cells[i] = holeCell
		}
	}
	b.cells[start], b.cells[goal] = startCell, goalCell
	return start
}
