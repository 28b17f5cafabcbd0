package frozenlake

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/headrace/headrace/envs"
)

// Demonstrate takes a step of a shortest path with probability skill, else any
// of the four moves. Where no path is left it moves at random.
func (l *Lake) Demonstrate(rng *rand.Rand, skill float64) envs.Action {
	if !l.Live() {
		return envs.Action{}
	}
	m := anyMove(l, rng)
	if rng.Float64() < skill {
		m = shortest(l, rng)
	}
	return envs.Action{Text: words[m]}
}

// player picks a move.
type player func(*Lake, *rand.Rand) move

// players are the yardsticks, from worst to best.
var players = []struct {
	name string
	play player
}{
	{"random", anyMove},
	{"ignoring_holes", headlong},
	{"avoiding_holes", careful},
	{"optimal", shortest},
}

// repeats is how often every player plays every seed.
const repeats = 8

// Yardsticks returns the mean reward of scripted players on the held-out maps
// of the seeds, eight episodes a map: "random" moves; "ignoring_holes" goes toward
// the goal as the crow flies; "avoiding_holes" does so but never into a hole
// next to it; "optimal" takes shortest paths (the best there is on solid ice).
// Deterministic.
func Yardsticks(params json.RawMessage, seeds []int64) (map[string]float64, error) {
	lake, err := New(params)
	if err != nil {
		return nil, err
	}
	if len(seeds) == 0 {
		return nil, fmt.Errorf("yardsticks: no seeds")
	}
	scores := map[string]float64{}
	for i, p := range players {
		total := 0.0
		for _, seed := range seeds {
			for n := range repeats {
				rng := envs.NewRand(seed, uint64(streamPlayers+1+i*repeats+n))
				reward, err := lake.playOut(envs.Task{Env: Name, Seed: seed, Rollout: int64(n), HeldOut: true}, p.play, rng)
				if err != nil {
					return nil, err
				}
				total += reward
			}
		}
		scores[p.name] = total / float64(len(seeds)*repeats)
	}
	return scores, nil
}

func (l *Lake) playOut(task envs.Task, play player, rng *rand.Rand) (float64, error) {
	ctx := context.Background()
	if _, err := l.Reset(ctx, task); err != nil {
		return 0, err
	}
	total := 0.0
	for {
		r, err := l.Step(ctx, envs.Action{Text: words[play(l, rng)]})
		if err != nil {
			return 0, err
		}
		total += r.Reward
		if r.Done() {
			return total, nil
		}
	}
}

func anyMove(_ *Lake, rng *rand.Rand) move { return move(rng.IntN(4)) }

// headlong takes one of the moves that bring it nearer as the crow flies.
func headlong(l *Lake, rng *rand.Rand) move {
	return l.choose(rng, func(m move, next int) bool { return l.nearer(m) })
}

// careful is headlong among the moves that do not lead into a hole; if all
// that bring it nearer do, it steps aside.
func careful(l *Lake, rng *rand.Rand) move {
	safe := func(next int) bool { return l.rules.cells[next] != holeCell }
	return l.choose(rng,
		func(m move, next int) bool { return safe(next) && l.nearer(m) },
		func(m move, next int) bool { return safe(next) && next != l.cell })
}

// shortest takes a first step of one of the shortest paths.
func shortest(l *Lake, rng *rand.Rand) move {
	dist := l.rules.distances()
	return l.choose(rng, func(m move, next int) bool {
		return dist[next] >= 0 && dist[next] == dist[l.cell]-1
	})
}

// choose picks at random among the moves that the first wish allows; if it
// allows none, the next; in the end any.
func (l *Lake) choose(rng *rand.Rand, wishes ...func(m move, next int) bool) move {
	for _, wish := range wishes {
		var allowed [4]move
		n := 0
		for _, m := range reading {
			if next, _ := l.rules.neighbour(l.cell, m); wish(m, next) {
				allowed[n] = m
				n++
			}
		}
		if n > 0 {
			return allowed[rng.IntN(n)]
		}
	}
	return anyMove(l, rng)
}

func (l *Lake) nearer(m move) bool {
	rows, cols := l.rules.toGoal(l.cell)
	return m == down && rows > 0 || m == up && rows < 0 || m == right && cols > 0 || m == left && cols < 0
}
