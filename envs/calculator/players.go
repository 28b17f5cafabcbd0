package calculator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/headrace/headrace/envs"
)

// Demonstrate does the puzzle's next step with probability skill: the next
// operation as a call, or the answer when all are done. Else it does something
// well-formed and most likely wrong: a call with numbers of the episode, the
// whole expression in one call, or an answer too early.
func (c *Calculator) Demonstrate(rng *rand.Rand, skill float64) envs.Action {
	switch {
	case !c.Live():
		return envs.Action{}
	case rng.Float64() >= skill:
		return c.blunder(rng)
	case c.solved < len(c.puzzle):
		return callAction(c.puzzle[c.solved].String())
	default:
		return answerAction(c.puzzle.answer())
	}
}

func (c *Calculator) blunder(rng *rand.Rand) envs.Action {
	numbers := []int64{c.puzzle[0].left}
	for _, o := range c.puzzle {
		numbers = append(numbers, o.right)
	}
	numbers = append(numbers, c.results...)
	number := func() int64 { return numbers[rng.IntN(len(numbers))] }
	switch rng.IntN(4) {
	case 0:
		return answerAction(number())
	case 1:
		return callAction(c.puzzle.expression())
	default:
		operator := c.params.Operators[rng.IntN(len(c.params.Operators))]
		return callAction(operation{number(), operator, number()}.String())
	}
}

// Yardsticks returns the mean reward of scripted players on the held-out
// questions of the seeds: "random" makes well-formed moves at random,
// "optimal" calls and answers as it should. Deterministic.
func Yardsticks(params json.RawMessage, seeds []int64) (map[string]float64, error) {
	c, err := New(params)
	if err != nil {
		return nil, err
	}
	if len(seeds) == 0 {
		return nil, fmt.Errorf("yardsticks: no seeds")
	}
	scores := map[string]float64{}
	for name, skill := range map[string]float64{"random": 0, "optimal": 1} {
		total := 0.0
		for _, seed := range seeds {
			reward, err := c.playOut(seed, skill)
			if err != nil {
				return nil, err
			}
			total += reward
		}
		scores[name] = total / float64(len(seeds))
	}
	return scores, nil
}

func (c *Calculator) playOut(seed int64, skill float64) (float64, error) {
	ctx := context.Background()
	rng := envs.NewRand(seed, 1)
	if _, err := c.Reset(ctx, envs.Task{Env: Name, Seed: seed, HeldOut: true}); err != nil {
		return 0, err
	}
	total := 0.0
	for {
		r, err := c.Step(ctx, c.Demonstrate(rng, skill))
		if err != nil {
			return 0, err
		}
		total += r.Reward
		if r.Done() {
			return total, nil
		}
	}
}
