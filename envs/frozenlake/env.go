// Package frozenlake is the game of crossing a frozen lake to a goal without
// falling into a hole, as text: the agent is told what is around it and
// answers with one word.
//
// The rules are those of Gymnasium's FrozenLake-v1, checked against tables and
// rollouts recorded from it (testdata/record.py). To them are added random
// maps whose start and goal lie a bounded number of moves apart, which make a
// task that a small model can learn in minutes and that still separates
// walking toward the goal from seeing the holes.
//
// # A turn
//
// The observation is a user message, such as
//
//	up: wall, down: ice, left: wall, right: hole, goal at 3 down, 3 right
//
// or, with observation "grid", the map with the player as P. The action is one
// word, up, down, left or right; anything else gets "invalid, " and the same
// observation, and costs a turn. The goal gives reward 1 and a hole 0, and
// both terminate; the turn limit truncates.
//
// # Yardsticks
//
// What a curve is to be read against, on the same maps: random moves, walking
// toward the goal without looking at holes, the same but never into a hole
// next to it, and shortest paths. At the default parameters these score near
// .15, .75, .95 and 1.
package frozenlake

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"

	"github.com/headrace/headrace/envs"
)

// Name of the environment in the registry.
const Name = "frozenlake"

// Spec describes the environment to a registry.
func Spec() envs.Spec {
	return envs.Spec{
		Name: Name,
		Doc:  "Cross a frozen lake to the goal, one word a turn (Gymnasium's FrozenLake-v1, and random maps).",
		New: func(params json.RawMessage) (envs.Environment, error) {
			return New(params)
		},
		System:          system,
		Words:           vocabulary(),
		MaxActionTokens: 2,
		Params:          envs.DescribeParams(DefaultParams()),
		Yardsticks:      Yardsticks,
	}
}

// Lake is one instance of the environment; see [envs.Environment] for its
// contract.
type Lake struct {
	envs.Lifecycle
	params Params
	fixed  *board
	rules  rules
	cell   int
	chance *rand.Rand
	buffer [3]outcome
}

// New makes a lake from a JSON object of [Params].
func New(params json.RawMessage) (*Lake, error) {
	p := DefaultParams()
	if err := envs.DecodeParams(params, &p); err != nil {
		return nil, err
	}
	fixed, err := p.resolve()
	if err != nil {
		return nil, err
	}
	return &Lake{params: p, fixed: fixed}, nil
}

// Reset puts the player on the start of the map of the task's seed.
func (l *Lake) Reset(ctx context.Context, task envs.Task) (envs.Observation, error) {
	if err := l.Start(ctx, task, l.params.MaxTurns); err != nil {
		return envs.Observation{}, err
	}
	b := l.fixed
	if b == nil {
		var err error
		if b, err = randomBoard(task.Seed, task.HeldOut, l.params); err != nil {
			return envs.Observation{}, err
		}
	}
	l.rules = rules{board: b, slippery: l.params.Slippery, success: l.params.SuccessRate, reward: l.params.Rewards}
	starts := b.find(startCell)
	l.cell = starts[0]
	if len(starts) > 1 {
		l.cell = starts[envs.NewRand(task.Seed, streamStart).IntN(len(starts))]
	}
	l.chance = nil
	if l.params.Slippery {
		l.chance = envs.NewRand(task.Seed^int64(uint64(task.Rollout)<<32), streamPlayers+uint64(task.Rollout))
	}
	return say(l.look()), nil
}

// Step moves the player by the one word of the action's text.
func (l *Lake) Step(ctx context.Context, action envs.Action) (envs.StepResult, error) {
	if err := l.Turn(ctx); err != nil {
		return envs.StepResult{}, err
	}
	m, ok := parse(action.Text)
	if !ok {
		return l.Settle(envs.StepResult{
			Observation: say(invalidPrefix + l.look()),
			Reward:      l.params.Rewards[2],
			Info:        map[string]string{"action": "invalid"},
		}), nil
	}
	uniform := 0.0
	if l.chance != nil {
		uniform = l.chance.Float64()
	}
	return l.Settle(l.move(m, uniform)), nil
}

// move applies the rules; uniform decides where slippery ice leads.
func (l *Lake) move(m move, uniform float64) envs.StepResult {
	o := draw(l.rules.outcomes(l.buffer[:0], l.cell, m), uniform)
	l.cell = o.cell
	result := envs.StepResult{Reward: o.reward, Terminated: o.done}
	if !o.done {
		result.Observation = say(l.look())
		return result
	}
	end := cellTexts[l.rules.cells[o.cell]]
	result.Observation = say(end)
	result.Info = map[string]string{"end": end}
	return result
}

func (l *Lake) look() string {
	if l.params.Observation == obsGrid {
		return l.rules.grid(l.cell)
	}
	return l.rules.near(l.cell)
}

func say(text string) envs.Observation {
	return envs.Observation{Messages: []envs.Message{{Role: envs.RoleUser, Content: text}}}
}

func parse(text string) (move, bool) {
	text = strings.TrimSpace(text)
	for m, word := range words {
		if text == word {
			return move(m), true
		}
	}
	return 0, false
}
