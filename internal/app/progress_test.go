package app

import (
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/consumers/advise"
	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/subjects"
)

func TestView_LinesFitTheTerminal(t *testing.T) {
	b := NewBoard(time.Now(), 100)
	for step := subjects.Step(1); step <= 3; step++ {
		b.Entry(&subjects.Entry{Batches: []subjects.Batch{{Step: step, Rows: 4, Tokens: 1000, RewardMean: .5}},
			Evals: []subjects.EvalResult{{Round: step, Sampled: .25, Greedy: .5, Tasks: 8}}})
		b.Commit(&subjects.CommitEvent{Step: step, Tokens: 1000, TrainSeconds: 1, WaitSeconds: 1, At: int64(2e9) * int64(step)})
	}
	s := b.State()
	v := &view{title: "headrace lake-1", plain: true}
	text := strings.Join(v.render(&s), "\n")
	for _, part := range []string{"3/100", "0.500 in training", "@3 0.250 (greedy 0.500)", "500 tokens/s"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if got := fit(line, 40); len([]rune(got)) >= 40 {
			t.Errorf("%q does not fit", got)
		}
	}
}

func TestView_SaysWhatLimitsTheRun(t *testing.T) {
	s := BoardState{State: board.State{Advice: []board.Advice{{Code: advise.EngineBound, Text: "The engines limit the run."}, {Code: advise.ZeroVariance, Text: "not shown"}}}}
	text := strings.Join((&view{plain: true}).render(&s), "\n")
	if !strings.Contains(text, "\nadvice    The engines limit the run.") || strings.Contains(text, "not shown") {
		t.Errorf("shows:\n%s", text)
	}
	s.Advice[0].Code = advise.NotEnoughData
	if text := strings.Join((&view{plain: true}).render(&s), "\n"); strings.Contains(text, "advice") {
		t.Errorf("advises on nothing:\n%s", text)
	}
}

func TestJoinLines_StayWholeToBeCopied(t *testing.T) {
	hint := "bin/headrace produce --run frozenlake-1 --credentials runs/frozenlake-1/nats.json"
	lines := joinLines(hint, 80)
	if len(lines) != 2 || !strings.HasSuffix(lines[0], ` \`) {
		t.Fatalf("%q", lines)
	}
	joined := strings.Join(strings.Fields(strings.TrimPrefix(strings.TrimSuffix(lines[0], `\`), "join")+lines[1]), " ")
	if joined != hint {
		t.Errorf("copied %q", joined)
	}
	if lines := joinLines(hint, 140); len(lines) != 1 {
		t.Errorf("%q", lines)
	}
}
