package calculator

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
		"default":       ``,
		"mixed":         `{"min_operations":1,"format_weight":0.2}`,
		"large numbers": `{"max_operand":9999,"max_result":999999,"negative":true,"max_turns":8}`,
	} {
		t.Run(name, func(t *testing.T) {
			envtest.Run(t, Spec(), envtest.Options{Params: json.RawMessage(params)})
		})
	}
}

// start returns a calculator at the question (3+4)*5.
func start(t *testing.T, params string) *Calculator {
	t.Helper()
	c, err := New(json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reset(context.Background(), envs.Task{}); err != nil {
		t.Fatal(err)
	}
	c.puzzle = puzzle{{3, '+', 4}, {7, '*', 5}}
	return c
}

func step(t *testing.T, c *Calculator, a envs.Action) envs.StepResult {
	t.Helper()
	r, err := c.Step(context.Background(), a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCalculator_QuestionCallsAnswer(t *testing.T) {
	c := start(t, ``)
	if got, want := c.puzzle.question(), "What is (3+4)*5?"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, w := range []struct{ expression, result string }{{"3+4", "7"}, {" 7 * 5 ", "35"}} {
		r := step(t, c, callAction(w.expression))
		want := envs.Message{Role: envs.RoleTool, Name: ToolName, Content: w.result}
		if r.Done() || len(r.Observation.Messages) != 1 || r.Observation.Messages[0] != want {
			t.Errorf("%s: %+v", w.expression, r)
		}
	}
	r := step(t, c, envs.Action{Text: "Answer: 35 "})
	if !r.Terminated || r.Reward != 1 || r.Components["answer"] != 1 || r.Components["format"] != 1 {
		t.Errorf("%+v", r)
	}
}

func TestCalculator_MistakesAreToldAndNotErrors(t *testing.T) {
	call := func(name, arguments string) envs.Action {
		return envs.Action{ToolCalls: []envs.ToolCall{{Name: name, Arguments: json.RawMessage(arguments)}}}
	}
	for want, action := range map[string]envs.Action{
		errTool:       call("python", `{"expression":"1+1"}`),
		errArguments:  call(ToolName, `{"expr":"1+1"}`),
		errExpression: callAction("(3+4)*5"),
		errOperator:   callAction("3/4"),
		errTooLarge:   callAction("99999999999999999999+1"),
		errNoAction:   {Text: "hm"},
	} {
		r := step(t, start(t, ``), action)
		if r.Done() || r.Observation.Messages[0].Content != want || r.Info["action"] != "invalid" {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	if r := step(t, start(t, ``), callAction("-9999999999999999999-1")); r.Observation.Messages[0].Content != errTooLarge {
		t.Errorf("%+v", r)
	}
}

func TestCalculator_EveryCallOfAnActionIsAnswered(t *testing.T) {
	calls := callAction("1+1").ToolCalls
	r := step(t, start(t, ``), envs.Action{ToolCalls: append(calls, callAction("2-5").ToolCalls...)})
	if len(r.Observation.Messages) != 2 || r.Observation.Messages[1].Content != "-3" {
		t.Errorf("%+v", r)
	}
	r = step(t, start(t, ``), envs.Action{ToolCalls: make([]envs.ToolCall, 100)})
	if n := len(r.Observation.Messages); n != maxCalls+1 {
		t.Errorf("%d answers to 100 calls", n)
	}
}

func TestCalculator_FinalWordWithoutAnswerEnds(t *testing.T) {
	if r := step(t, start(t, ``), envs.Action{Text: "35", Final: true}); !r.Terminated || r.Reward != 0 {
		t.Errorf("%+v", r)
	}
}

func TestCalculator_FormatIsTheShareOfSoundTurns(t *testing.T) {
	c := start(t, `{"format_weight":0.5}`)
	step(t, c, envs.Action{Text: "hm"})
	step(t, c, callAction("3+4"))
	step(t, c, callAction("3+4)"))
	r := step(t, c, envs.Action{Text: "Answer: 1"})
	if r.Reward != 0.25 || r.Components["format"] != 0.5 || r.Components["answer"] != 0 {
		t.Errorf("%+v", r)
	}
}

func TestCalculator_TurnLimitPaysTheFormatOnly(t *testing.T) {
	c := start(t, `{"format_weight":0.5,"max_turns":1}`)
	if r := step(t, c, callAction("3+4")); !r.Truncated || r.Reward != 0.5 || r.Components["answer"] != 0 {
		t.Errorf("%+v", r)
	}
}

func TestPuzzles_StayWithinTheCurriculum(t *testing.T) {
	p := DefaultParams()
	p.MinOperations = 1
	count := map[int]int{}
	for seed := range int64(1000) {
		z, err := newPuzzle(seed, false, p)
		if err != nil {
			t.Fatal(err)
		}
		count[len(z)]++
		for _, o := range z {
			if v := o.value(); v < 0 || v > 99 || o.right < 2 || o.right > 9 {
				t.Fatalf("seed %d: %s has result %d", seed, z.expression(), v)
			}
		}
	}
	if count[1] < 400 || count[2] < 400 {
		t.Errorf("operations %v", count)
	}
}

func TestPuzzles_HeldOutOnesAreNeverTrainedOn(t *testing.T) {
	trained := map[string]bool{}
	for seed := range int64(3000) {
		z, _ := newPuzzle(seed, false, DefaultParams())
		trained[z.expression()] = true
	}
	for seed := range int64(500) {
		if z, _ := newPuzzle(seed, true, DefaultParams()); trained[z.expression()] || len(z) == 0 {
			t.Fatalf("held-out question %s of seed %d is trained on", z.expression(), seed)
		}
	}
}

// The questions of a seed are part of what a recipe means.
func TestPuzzles_OfASeedStayTheSame(t *testing.T) {
	var got []string
	for seed := range int64(4) {
		z, err := newPuzzle(seed, false, DefaultParams())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, z.expression())
	}
	if want := "(3+2)*2 (6-4)+4 (6+7)*7 (6*3)-6"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", strings.Join(got, " "), want)
	}
}

func TestYardsticks_SeparateThePlayers(t *testing.T) {
	seeds := make([]int64, 200)
	for i := range seeds {
		seeds[i] = int64(i)
	}
	got, err := Yardsticks(nil, seeds)
	if err != nil {
		t.Fatal(err)
	}
	if got["optimal"] != 1 || got["random"] > 0.15 {
		t.Errorf("%v", got)
	}
	t.Logf("%v", got)
}

func TestDemonstrator_FindsItsWayBackAfterBlunders(t *testing.T) {
	rng, right := rand.New(rand.NewPCG(1, 1)), 0.0
	c, _ := New(json.RawMessage(`{"max_turns":12}`))
	for seed := range int64(100) {
		_, _ = c.Reset(context.Background(), envs.Task{Seed: seed})
		step(t, c, callAction(c.puzzle.expression()))
		for c.Live() {
			right += step(t, c, c.Demonstrate(rng, 1)).Reward
		}
	}
	if right != 100 {
		t.Errorf("%g right of 100", right)
	}
}

func TestNew_RefusesWhatCannotBeAsked(t *testing.T) {
	for params, want := range map[string]string{
		`{"operation":1}`:                   `unknown parameter "operation": allowed are min_operations, max_operations,`,
		`{"max_operations":3}`:              "want 1 to 2, least first",
		`{"min_operand":5,"max_operand":4}`: "want 0 to 9999, least first",
		`{"operators":"+/"}`:                `want some of + - *, not "+/"`,
		`{"max_result":-1}`:                 "want 0 to 999999, not -1",
		`{"max_turns":0}`:                   "want 1 to 1000, not 0",
		`{"format_weight":1.5}`:             "want 0 to 1, not 1.5",
		`{"min_operand":9,"operators":"*"}`: "too few questions of 2 operations * on 9..9 have their results within max_result 99",
		`{"max_turns":"two"}`:               `parameter max_turns: want whole number, not "two"`,
	} {
		_, err := New(json.RawMessage(params))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
	}
}

func FuzzParseOperation(f *testing.F) {
	for _, s := range []string{"3+4", "-3--4", " 9 * 9 ", "", "-", "1+", "9999999*1", "1+2+3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, problem := parseOperation(text)
		if problem != "" {
			return
		}
		if again, p := parseOperation(o.String()); p != "" || again != o {
			t.Errorf("%q reads as %v, and that as %v %s", text, o, again, p)
		}
	})
}

// An agent that parses the demonstrated text finds the demonstrated calls.
func TestDemonstrator_TextHoldsTheCall(t *testing.T) {
	a := callAction("3+4")
	text, _ := strings.CutPrefix(a.Text, "<tool_call>\n")
	text, _ = strings.CutSuffix(text, "\n</tool_call>")
	var call envs.ToolCall
	if err := json.Unmarshal([]byte(text), &call); err != nil {
		t.Fatal(err)
	}
	if call.Name != a.ToolCalls[0].Name || string(call.Arguments) != string(a.ToolCalls[0].Arguments) {
		t.Errorf("text holds %s %s", call.Name, call.Arguments)
	}
}
