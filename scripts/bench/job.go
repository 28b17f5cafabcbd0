package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const (
	benchRun  = subjects.Run("bench")
	benchEnv  = "bench"
	groupSize = 8
	producers = 4
	vocab     = 1 << 17
)

// job is what a role is told: the same JSON for Go and Python.
type job struct {
	Length         int     `json:"length"` // tokens of a trajectory
	Groups         int     `json:"groups"`
	GroupsPerBatch int     `json:"groups_per_batch"`
	Producers      int     `json:"producers"`
	Index          int     `json:"index"`     // of this producer
	Live           int     `json:"live"`      // trajectories in flight in a producer
	Ahead          int     `json:"ahead"`     // batches that producers may be ahead of the trainer
	Pace           float64 `json:"pace"`      // groups a second; 0: as fast as it goes
	Sync           string  `json:"sync"`      // of the server: "1s", "always"
	Dir            string  `json:"dir"`       // of this run of a line
	Feed           string  `json:"feed"`      // where the bridge listens
	Port           int     `json:"port"`      // Redis's
	Pipeline       int     `json:"pipeline"`  // Redis: trajectories in a pipeline; 0: none
	Versions       bool    `json:"versions"`  // the array of token versions too
	Settle         float64 `json:"settle"`    // seconds the trainer waits before it asks for a batch
	Work           float64 `json:"work"`      // seconds the trainer trains on a batch
	Watchers       int     `json:"watchers"`  // how many look at the run
	Kind           string  `json:"kind"`      // of a watcher
	Telemetry      string  `json:"telemetry"` // on: all there is; off: none; else as the roles come
	Profile        string  `json:"profile"`
}

func (j job) batches() int        { return j.Groups / j.GroupsPerBatch }
func (j job) tokens() float64     { return float64(j.Groups*groupSize) * float64(j.Length) }
func (j job) credentials() string { return filepath.Join(j.Dir, "credentials.json") }

// connect connects to the job's server over loopback TCP.
func (j job) connect(ctx context.Context, name string) (*bus.Conn, error) {
	conn, err := bus.Connect(ctx, bus.Options{CredentialsFile: j.credentials(), Name: name, Log: logger(), Mute: j.Telemetry == telemetryOff})
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", name, err)
	}
	return conn, nil
}

// sample makes the trajectories of a job: all tokens sampled, ids stamped with
// group and slot so that the trainer can tell what it got.
type sample struct {
	producer string
	tokens   []int32
	logprobs []float32
}

func newSample(length int, producer string) *sample {
	s := &sample{producer: producer, tokens: make([]int32, length), logprobs: make([]float32, length)}
	for i := range length {
		s.tokens[i] = int32(i * 7 % 50000)
		s.logprobs[i] = -float32(i%64) / 8
	}
	return s
}

func (s *sample) trajectory(group, slot int) *subjects.Trajectory {
	n := int32(len(s.tokens))
	tokens := slices.Clone(s.tokens)
	tokens[0], tokens[1] = int32(group), int32(slot)
	return &subjects.Trajectory{
		Kind: subjects.Train, Group: subjects.TrainGroup(uint64(group)), Slot: subjects.Slot(slot), Environment: benchEnv,
		Producer: s.producer, Status: subjects.Succeeded, Reward: float64(slot % 2), Sampling: subjects.Sampling{Temperature: 1},
		Segments: []subjects.Segment{{
			Tokens: tokens, Logprobs: s.logprobs, Parent: -1,
			Versions: []subjects.VersionSpan{{Start: 0, End: n}},
			LossMask: []subjects.Span{{Start: 0, End: n}},
		}},
	}
}

// bundleShape is how many trajectories of a length a full bundle holds, and the
// bytes of one body.
func bundleShape(length int) (count, body int) {
	var buf bytes.Buffer
	if err := subjects.EncodeTrajectory(&buf, newSample(length, "p0").trajectory(1000, 0)); err != nil {
		panic(err) // of a constant
	}
	return min(64, (256<<10)/buf.Len()), buf.Len()
}
