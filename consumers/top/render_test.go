package top

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/subjects"
)

var update = flag.Bool("update", false, "accept what is drawn")

// picture is a run with something in every part, one producer lost, one blocked.
func picture() Picture {
	s := &board.State{Run: "frozenlake-7", Recipe: "frozenlake", Environments: []string{"frozenlake", "calculator"}, Started: 1e9, Now: 1e9 + 754, Live: true,
		Step: board.StepState{Committed: 31, Cut: 32, Max: 48}, StalenessMaxAllowed: 1,
		Evals: []board.Eval{{Round: 12, Sampled: .59, Greedy: .773}, {Round: 24, Sampled: .762, Greedy: .801}},
		Trainer: board.Trainer{Connected: 1, Recent: board.Times{Wait: .34, Train: .5, Prepare: .02, Compile: .04, Publish: .06, Checkpoint: .04}, Wait: .312, Seconds: board.Times{Wait: 20, Train: 60, Publish: 5, Checkpoint: 5, Start: 10},
			StepSeconds: 2.06, Compiles: 4, Resumes: 1, Version: 31},
		Engines: []board.Engine{
			{Name: "engine-0", Version: 31, Ready: true, Heard: .4, Running: 192, Waiting: 44, TokenUsage: .8, Busy: .97, PausedFraction: .02, TokensPerSecond: 12345, CacheHit: .73, RowFill: .85},
			{Name: "sglang-on-another-machine-with-a-long-name", Version: 30, Heard: 12, Running: board.Unknown(), Waiting: board.Unknown(), TokenUsage: board.Unknown(), Busy: board.Unknown(),
				PausedFraction: board.Unknown(), TokensPerSecond: board.Unknown(), CacheHit: board.Unknown(), RowFill: board.Unknown()}},
		Producers: []board.Producer{
			{Name: "local", Heard: .2, Slots: 192, Live: 180, Held: 190, Published: 13600, GenerateFraction: .98, EnvFraction: .02},
			{Name: "worker-17", Heard: .9, Slots: 64, Live: 64, Held: 64, Published: 3321, Failed: 2, GenerateFraction: .4, EnvFraction: .55, Blocked: true},
			{Name: "lost", Heard: 75, Slots: 64, Live: 12, Held: 12, Published: 99, GenerateFraction: board.Unknown(), EnvFraction: board.Unknown()}}, ProducersAll: 3,
		Queues: []board.Queue{{Name: "tasks", Trajectories: 245, Bytes: 53248}, {Name: "publisher", Trajectories: 3, Bytes: board.Unknown()}, {Name: "rollouts", Trajectories: 62, Bytes: 116736},
			{Name: "kept", Trajectories: 80, Bytes: 130000}, {Name: "ready", Trajectories: 192, Bytes: 3.5e6}},
		Groups:       board.Groups{Issued: 1444, Open: 24, Kept: 10, Oldest: 4.1, Retries: 2, Outcomes: map[subjects.Outcome]int64{subjects.Kept: 720, subjects.ZeroVariance: 690, subjects.Stale: 4}},
		Trajectories: board.Trajectories{Produced: 11552, Trained: 5952, Open: 142, Dropped: map[string]int64{"zero_variance": 5420, "stale": 32, "failed": 6}},
		Staleness:    board.Staleness{Versions: []int64{0, 1}, Trajectories: []int64{20, 80}},
		Rates:        board.Rates{Trajectories: 69.4, Tokens: 12345, TrainedTokens: 4400, Bytes: 103424},
		Syncs: []board.Sync{{Version: 31, Engine: "engine-0", Seconds: .1}, {Version: 31, Engine: "sglang-on-another-machine-with-a-long-name", Error: "load: no such file"},
			{Version: 30, Engine: "engine-0", Seconds: .04}},
		Roles: []board.Role{{Role: "bridge", Instance: "b", Heard: 1}, {Role: "grouper", Instance: "g", Text: "waiting for 3 slots of group t17", Heard: 1}, {Role: "grouper", Instance: "old", Text: "gone", Heard: 99}},
		Advice: []board.Advice{{Code: "engine_bound", Text: "The engines limit the run: they compute 97% of the time, and the trainer waits 34% of its own.", Knob: "more engines (engine.count)"},
			{Code: "zero_variance", Text: "48% of the groups teach nothing.", Knob: "other tasks"}, {Code: "other", Text: "not shown"}},
	}
	steps := &board.Steps{}
	for i := range 31 {
		steps.Step, steps.Committed, steps.At = append(steps.Step, int64(i+1)), append(steps.Committed, true), append(steps.At, 1e9+float64(10*i))
		steps.Reward = append(steps.Reward, .2+.5*math.Sqrt(float64(i)/30))
	}
	return Picture{s, steps}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("draws, -update accepts:\n%s", got)
	}
}

func draw(p Picture, s Screen) string { return strings.Join(Render(p, s), "\n") + "\n" }

func TestRender_WhatTakesLongerThanStepsDo(t *testing.T) {
	for _, c := range []struct {
		wait, train board.Number
		want        string
	}{
		{124, 0, "has waited 2m4s for a batch"}, {30, 100, "has trained 100 s on this step"},
		{1, 1, ""}, {9, 0, ""}, {board.Unknown(), board.Unknown(), ""}, // 2.06 s a step; seconds are nothing to tell
	} {
		p := picture()
		p.State.Trainer.NowWait, p.State.Trainer.NowTrain = c.wait, c.train
		got := draw(p, Screen{Width: 120})
		if c.want == "" && strings.Contains(got, "has ") || !strings.Contains(got, c.want) {
			t.Errorf("%v, %v: %s", c.wait, c.train, got)
		}
	}
}

func TestRender(t *testing.T) {
	for _, width := range []int{40, 80, 120} {
		golden(t, fmt.Sprintf("live-%d.txt", width), draw(picture(), Screen{Width: width}))
	}
	golden(t, "live-80-colour.txt", draw(picture(), Screen{Width: 80, Colour: true}))
	golden(t, "live-80x24.txt", draw(picture(), Screen{Width: 80, Height: 24}))
	p := picture()
	p.State.Stall, p.State.Advice = &board.Stall{Code: subjects.NoEngine, Text: "no engine serves the run", Since: 1e9}, []board.Advice{{Code: "stall", Text: "The run stands still: no engine serves the run."}}
	golden(t, "stalled-80.txt", strings.ReplaceAll(draw(p, Screen{Width: 80}), clock(1e9), "HH:MM:SS"))
	p = picture()
	p.State.End, p.State.EndText, p.State.Live = subjects.EndNoProducers, "no producer is connected", false
	golden(t, "ended-80.txt", draw(p, Screen{Width: 80}))
	golden(t, "empty-80.txt", draw(Picture{empty(), &board.Steps{}}, Screen{Width: 80}))
}

// empty is a run of which nothing is known.
func empty() *board.State {
	s := board.New(board.Config{Run: "lake-1"}).State(second(1))
	return &s
}

// TestRender_FitsEveryScreen: no line is wider, no picture higher, than there is room.
func TestRender_FitsEveryScreen(t *testing.T) {
	for _, p := range []Picture{picture(), {empty(), &board.Steps{}}, hostile(t)} {
		for width := narrowest; width < 200; width += 7 {
			for _, height := range []int{0, 1, 2, 5, 10, 24, 50} {
				lines := Render(p, Screen{Width: width, Height: height, Colour: width%2 == 0})
				if height > 0 && len(lines) > height {
					t.Errorf("%d lines on a screen of %d", len(lines), height)
				}
				for _, l := range lines {
					if n := visible(l); n > width {
						t.Errorf("%d columns of %d: %q", n, width, l)
					}
				}
			}
		}
	}
}

// hostile is a picture whose texts would play with a terminal.
func hostile(t *testing.T) Picture {
	t.Helper()
	p := picture()
	text, err := json.Marshal(p.State)
	if err != nil {
		t.Fatal(err)
	}
	evil := `\u001b[2J\u0007\r\n\u009b31m\u202e日本語\u0301`
	for _, word := range []string{"engine-0", "local", "frozenlake", "The engines", "no such file"} {
		text = []byte(strings.ReplaceAll(string(text), word, evil+word))
	}
	p.State = &board.State{}
	if err := json.Unmarshal(text, p.State); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRender_ObeysNobodyElse(t *testing.T) {
	p := hostile(t)
	for _, text := range []string{draw(p, Screen{Width: 120}), Line(p)} {
		if strings.ContainsAny(text, "\x1b\a\r\u009b\u202e") || !strings.Contains(text, "日本語") {
			t.Errorf("draws %q", text)
		}
	}
}

func TestLine(t *testing.T) {
	p := picture()
	want := clock(p.State.Now) + "  step 31/48  reward 0.660  2.06 s a step  trainer waits 34%  engines busy 97%  12.3k tokens/s  24 groups open  engine_bound: " + p.State.Advice[0].Text
	if got := Line(p); got != want {
		t.Errorf("says %q\nwant %q", got, want)
	}
	p.State.End, p.State.EndText = "complete", ""
	if got := Line(p); !strings.HasSuffix(got, "24 groups open  ended: complete") {
		t.Errorf("says %q", got)
	}
}
