package frozenlake

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/headrace/headrace/envs"
	"github.com/headrace/headrace/envs/envtest"
)

func TestConformance(t *testing.T) {
	for name, params := range map[string]string{
		"default":  ``,
		"grid":     `{"observation":"grid"}`,
		"slippery": `{"slippery":true,"success_rate":0.8,"max_turns":20}`,
		"8x8":      `{"map":"8x8"}`,
		"custom":   `{"map":["SFFHF","FHFFF","SFFHG"],"slippery":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			envtest.Run(t, Spec(), envtest.Options{Params: json.RawMessage(params)})
		})
	}
}

func play(t *testing.T, lake *Lake, text string) envs.StepResult {
	t.Helper()
	r, err := lake.Step(context.Background(), envs.Action{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLake_ReadsAsTheDocumentationSays(t *testing.T) {
	lake, err := New(json.RawMessage(`{"map":["SHF","FFF","HFG"],"max_turns":6}`))
	if err != nil {
		t.Fatal(err)
	}
	first, err := lake.Reset(context.Background(), envs.Task{})
	if err != nil {
		t.Fatal(err)
	}
	start := "up: wall, down: ice, left: wall, right: hole, goal at 2 down, 2 right"
	want := []struct {
		action, text string
		reward       float64
	}{
		{"jump", "invalid, " + start, 0},
		{" down\n", "up: ice, down: hole, left: wall, right: ice, goal at 1 down, 2 right", 0},
		{"right", "up: hole, down: ice, left: ice, right: ice, goal at 1 down, 1 right", 0},
		{"down", "up: ice, down: wall, left: hole, right: goal, goal at 0 up, 1 right", 0},
		{"right", "goal", 1},
	}
	if got := first.Messages[0].Content; got != start {
		t.Errorf("start: %q, want %q", got, start)
	}
	for i, w := range want {
		r := play(t, lake, w.action)
		if got := r.Observation.Messages[0].Content; got != w.text || r.Reward != w.reward {
			t.Errorf("step %d: %q reward %g, want %q reward %g", i, got, r.Reward, w.text, w.reward)
		}
		if last := i == len(want)-1; r.Terminated != last {
			t.Errorf("step %d: terminated %v", i, r.Terminated)
		}
	}
}

func TestLake_GridShowsThePlayer(t *testing.T) {
	lake, _ := New(json.RawMessage(`{"map":["SHF","FFG"],"observation":"grid"}`))
	first, _ := lake.Reset(context.Background(), envs.Task{})
	if got, want := first.Messages[0].Content, "map\nPHF\nFFG"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := play(t, lake, "down").Observation.Messages[0].Content, "map\nFHF\nPFG"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLake_HoleTerminatesWithoutReward(t *testing.T) {
	lake, _ := New(json.RawMessage(`{"map":["SHG"]}`))
	_, _ = lake.Reset(context.Background(), envs.Task{})
	r := play(t, lake, "right")
	if !r.Terminated || r.Reward != 0 || r.Info["end"] != "hole" {
		t.Errorf("%+v", r)
	}
}

func TestLake_RolloutDecidesTheIceAndNotTheMap(t *testing.T) {
	lake, _ := New(json.RawMessage(`{"slippery":true,"max_turns":30}`))
	paths := map[string]bool{}
	var start string
	for rollout := range int64(20) {
		obs, err := lake.Reset(context.Background(), envs.Task{Seed: 3, Rollout: rollout})
		if err != nil {
			t.Fatal(err)
		}
		if start == "" {
			start = obs.Messages[0].Content
		}
		if obs.Messages[0].Content != start {
			t.Fatal("rollouts of one seed start differently")
		}
		path, rng := "", rand.New(rand.NewPCG(1, 1))
		for lake.Live() {
			path += play(t, lake, words[rng.IntN(4)]).Observation.Messages[0].Content
		}
		paths[path] = true
	}
	if len(paths) < 10 {
		t.Errorf("%d distinct episodes of 20 rollouts", len(paths))
	}
}

// The maps of a seed are part of what a recipe means: a change here changes
// every evaluation.
func TestRandomMaps_OfASeedStayTheSame(t *testing.T) {
	p := DefaultParams()
	p.MaxTurns = 8
	var got []string
	for seed := range int64(3) {
		b, err := randomBoard(seed, false, p)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.ReplaceAll(b.grid(-1)[len(gridPrefix):], "\n", "/")+" "+string(rune('a'+b.find(startCell)[0])))
	}
	want := []string{"HFFF/FFFF/FFFF/HGHF b", "FFFF/FGFF/FFFF/FFFF i", "FFFF/FFFF/FFFF/FFGH f"}
	if strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("maps %q, want %q", got, want)
	}
}

func TestRandomMaps_GoalIsWithinReachAndNotNextDoor(t *testing.T) {
	p := DefaultParams()
	p.MaxTurns, p.MinDistance = 6, 3
	holes, seen := 0, map[string]bool{}
	for seed := range int64(2000) {
		b, err := randomBoard(seed, false, p)
		if err != nil {
			t.Fatal(err)
		}
		if d := b.distances()[b.find(startCell)[0]]; d < 3 || d > 5 {
			t.Fatalf("seed %d: goal is %d moves away", seed, d)
		}
		holes += len(b.find(holeCell))
		seen[string(b.cells)] = true
	}
	if share := float64(holes) / (2000 * 14); share < 0.11 || share > 0.17 {
		t.Errorf("share of holes %.3f", share)
	}
	// One map in ten has no hole at all, so some come twice.
	if len(seen) < 1700 {
		t.Errorf("%d distinct maps of 2000", len(seen))
	}
}

func TestRandomMaps_HeldOutOnesAreNeverTrainedOn(t *testing.T) {
	p := DefaultParams()
	p.MaxTurns = 8
	trained := map[string]bool{}
	for seed := range int64(3000) {
		b, err := randomBoard(seed, false, p)
		if err != nil {
			t.Fatal(err)
		}
		trained[string(b.cells)] = true
	}
	for seed := range int64(500) {
		b, err := randomBoard(seed, true, p)
		if err != nil {
			t.Fatal(err)
		}
		if trained[string(b.cells)] {
			t.Fatalf("held-out map of seed %d is trained on", seed)
		}
	}
}

func TestYardsticks_SeparateThePlayers(t *testing.T) {
	seeds := make([]int64, 256)
	for i := range seeds {
		seeds[i] = 900_000_000 + int64(i)
	}
	got, err := Yardsticks(nil, seeds)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"random": 0.125, "ignoring_holes": 0.748, "avoiding_holes": 0.947, "optimal": 1} {
		if d := got[name] - want; d < -0.06 || d > 0.06 || want == 1 && d != 0 {
			t.Errorf("%s scores %.3f, want near %.3f", name, got[name], want)
		}
	}
	t.Logf("%v", got)
}

func TestDemonstrator_SkillIsTheShareOfGoodMoves(t *testing.T) {
	lake, _ := New(nil)
	rng := rand.New(rand.NewPCG(1, 2))
	total := 0.0
	for seed := range int64(300) {
		r, err := lake.playOut(envs.Task{Seed: seed}, func(l *Lake, _ *rand.Rand) move {
			m, _ := parse(l.Demonstrate(rng, 1).Text)
			return m
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		total += r
	}
	if total != 300 {
		t.Errorf("full skill reaches %g goals of 300", total)
	}
}

func TestNew_RefusesWhatCannotBePlayed(t *testing.T) {
	for params, want := range map[string]string{
		`{"sizes":5}`:                     `unknown parameter "sizes": allowed are map, size, holes,`,
		`{"size":"x"}`:                    `parameter size: want whole number, not "x"`,
		`{"size":1}`:                      "want 2 to 16, not 1",
		`{"holes":1}`:                     "parameter holes: want 0 to below 1",
		`{"map":"5x5"}`:                   `want random, 4x4, 8x8 or a list of rows, not "5x5"`,
		`{"map":["SF","F"]}`:              "parameter map: row 2 has 1 cells, row 1 has 2",
		`{"map":["SX"]}`:                  "row 1 has 'X': allowed are S, F, H, G",
		`{"map":["FF"]}`:                  "needs at least one S and one G",
		`{"map":[]}`:                      "needs at least one S and one G",
		`{"map":7}`:                       "parameter map: want random, 4x4, 8x8 or a list of rows, not 7",
		`{"min_distance":8}`:              "leave no map within max_turns 8: want at most 7",
		`{"holes":0.99,"min_distance":6}`: "too few maps of size 4 with holes 0.99",
		`{"success_rate":2}`:              "want 0 to 1, not 2",
		`{"observation":"far"}`:           `want near or grid, not "far"`,
		`{"max_turns":-1}`:                "want 0 to 10000, not -1",
		`{"size":2,"min_distance":3}`:     "too few maps of size 2",
		`[]`:                              "parameters: want a JSON object",
		`{"reward_schedule":[1,2]}`:       "parameter reward_schedule: want list of 3 numbers, not [1,2]",
	} {
		_, err := New(json.RawMessage(params))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	ctx := context.Background()
	lake, _ := New(nil)
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		if !lake.Live() {
			_, _ = lake.Reset(ctx, envs.Task{Seed: n})
		}
		_, _ = lake.Step(ctx, envs.Action{Text: words[n&3]})
	}
}
