package frozenlake

// rules are Gymnasium's FrozenLake-v1 dynamics on a board (gymnasium 1.4).
type rules struct {
	*board
	slippery bool
	// success is the probability of going where one wants on slippery ice;
	// the rest is split between the two perpendicular directions.
	success float64
	// reward for reaching goal, hole and ice, in this order.
	reward [3]float64
}

// outcome is one thing that a move may lead to.
type outcome struct {
	prob   float64
	cell   int
	reward float64
	done   bool
}

// outcomes appends what a move from a cell may lead to, in Gymnasium's order:
// on slippery ice the direction before, the direction itself, the one after.
func (r rules) outcomes(dst []outcome, cell int, m move) []outcome {
	if r.ends(cell) {
		return append(dst, outcome{prob: 1, cell: cell, done: true})
	}
	if !r.slippery {
		return append(dst, r.arrive(1, cell, m))
	}
	fail := (1 - r.success) / 2
	return append(dst,
		r.arrive(fail, cell, (m+3)%4), r.arrive(r.success, cell, m), r.arrive(fail, cell, (m+1)%4))
}

func (r rules) arrive(prob float64, cell int, m move) outcome {
	next, _ := r.neighbour(cell, m)
	o := outcome{prob: prob, cell: next, reward: r.reward[2]}
	switch r.cells[next] {
	case goalCell:
		o.reward, o.done = r.reward[0], true
	case holeCell:
		o.reward, o.done = r.reward[1], true
	}
	return o
}

// draw picks the outcome that a uniform number in [0,1) falls on: the first
// whose cumulative probability is above it, and the first of all if rounding
// leaves none, as Gymnasium does.
func draw(outcomes []outcome, uniform float64) outcome {
	sum := 0.0
	for _, o := range outcomes {
		sum += o.prob
		if sum > uniform {
			return o
		}
	}
	return outcomes[0]
}
