package main

import (
	"context"
	"time"

	"github.com/headrace/headrace/envs"
)

// sleeper is an environment that only takes its time.
type sleeper struct {
	work
	episode uint64
	step    int
}

var observation = envs.Observation{Messages: []envs.Message{{Role: envs.RoleUser, Content: "up: ice, down: hole, left: wall, right: ice, goal at 2 down, 3 right"}}}

// Reset takes no time.
func (s *sleeper) Reset(_ context.Context, task envs.Task) (envs.Observation, error) {
	s.episode, s.step = uint64(task.Seed), 0
	return observation, nil
}

// Step takes what the table says.
func (s *sleeper) Step(ctx context.Context, _ envs.Action) (envs.StepResult, error) {
	timer := time.NewTimer(latency(s.seed, s.episode, uint64(s.step)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return envs.StepResult{}, ctx.Err()
	}
	s.step++
	return envs.StepResult{Observation: observation, Reward: 1, Terminated: s.step == s.steps}, nil
}

// Close frees nothing.
func (s *sleeper) Close() error { return nil }
