package app

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/headrace/headrace/consumers/board"
)

// Summary is what a run came to: the file a script reads after `headrace up`.
type Summary struct {
	Run                string             `json:"run"`
	Recipe             string             `json:"recipe"`
	Seed               int64              `json:"seed"`
	End                string             `json:"end"`
	EndText            string             `json:"end_text,omitempty"`
	Steps              int64              `json:"steps"`
	SecondsToFirstStep float64            `json:"seconds_to_first_step"`
	SecondsTotal       float64            `json:"seconds_total"`
	Eval               []EvalFacts        `json:"eval"`
	Yardsticks         map[string]float64 `json:"yardsticks,omitempty"`
	TrainerWait        float64            `json:"trainer_wait_fraction"`
	StalenessMean      float64            `json:"staleness_mean"`
	TokensTrained      int                `json:"tokens_trained"`
	Trajectories       int                `json:"trajectories_trained"`
	Groups             map[string]int     `json:"groups"`
	Training           []float64          `json:"training_reward"`
}

// EvalFacts is one evaluation, as the summary gives it.
type EvalFacts struct {
	Step       int64   `json:"step"`
	Reward     float64 `json:"reward"`
	Greedy     float64 `json:"greedy"`
	Tasks      int     `json:"tasks"`
	Failed     int     `json:"failed"`
	MinVersion int64   `json:"min_version"`
	MaxVersion int64   `json:"max_version"`
}

// summarize sums the board up; began is when the user typed the command.
func summarize(s *BoardState, began, now time.Time) Summary {
	out := Summary{End: s.End, EndText: s.EndText, Steps: s.Committed(), SecondsTotal: now.Sub(began).Seconds(),
		TrainerWait: s.WaitFraction(), Groups: map[string]int{}}
	rows := s.AllRows()
	if first := firstStep(&rows); first.After(began) { // a resumed run has trained before
		out.SecondsToFirstStep = first.Sub(began).Seconds()
	}
	for _, e := range s.Evals {
		out.Eval = append(out.Eval, EvalFacts{Step: e.Round, Reward: e.Sampled.Or(0), Greedy: e.Greedy.Or(0), Tasks: e.Tasks,
			Failed: e.Failed, MinVersion: e.MinVersion, MaxVersion: e.MaxVersion})
	}
	for o, n := range s.Groups.Outcomes {
		out.Groups[string(o)] = int(n)
	}
	stale := 0.0
	for i := range rows.Step {
		if r := &rows; r.Committed[i] {
			out.Training = append(out.Training, board.Number(r.Reward[i]).Or(0))
			out.TokensTrained += int(r.Tokens[i])
			out.Trajectories += int(r.Rows[i])
			stale += board.Number(r.StalenessMean[i]).Or(0)
		}
	}
	if n := len(out.Training); n > 0 {
		out.StalenessMean = stale / float64(n)
	}
	return out
}

// firstStep is when step 1 was committed; zero before.
func firstStep(r *board.Steps) time.Time {
	if r.Len() > 0 && r.Step[0] == 1 && r.Committed[0] {
		return time.Unix(0, int64(r.At[0]*1e9))
	}
	return time.Time{}
}

// curve is the picture of the summary.
func (s *Summary) curve() *Curve {
	c := &Curve{Title: fmt.Sprintf("%s: evaluation on held-out tasks while training", s.Run), Steps: s.Steps, Yardstick: s.Yardsticks}
	for _, e := range s.Eval {
		c.Sampled = append(c.Sampled, Point{e.Step, e.Reward})
		c.Greedy = append(c.Greedy, Point{e.Step, e.Greedy})
		c.Steps = max(c.Steps, e.Step)
	}
	for i, r := range s.Training {
		c.Training = append(c.Training, Point{int64(i + 1), r})
	}
	return c
}

// save writes base.json and base.svg, each atomically.
func (s *Summary) save(base string) error {
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return fmt.Errorf("make folder of the summary: %w", err)
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(base+".json", append(data, '\n')); err != nil {
		return err
	}
	var svg strings.Builder
	if err := s.curve().WriteSVG(&svg); err != nil {
		return err
	}
	return writeFile(base+".svg", []byte(svg.String()))
}

// writeFile replaces a file's content whole.
func writeFile(name string, data []byte) error {
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(tmp, name)
}

// WriteText prints the summary for a person.
func (s *Summary) WriteText(w io.Writer) {
	fmt.Fprintf(w, "run %s ended: %s after %d steps, %s in all", s.Run, s.End, s.Steps, seconds(s.SecondsTotal))
	if s.SecondsToFirstStep > 0 {
		fmt.Fprintf(w, " (first step after %s)", seconds(s.SecondsToFirstStep))
	}
	if s.EndText != "" {
		fmt.Fprintf(w, "\n%s", s.EndText)
	}
	fmt.Fprintf(w, "\ntrained on %d trajectories, %s tokens, %.2f steps stale on average\n", s.Trajectories, count(float64(s.TokensTrained)), s.StalenessMean)
	fmt.Fprintf(w, "trainer waited %.0f%% of its time\n", 100*s.TrainerWait)
	fmt.Fprintf(w, "groups: %s\n\n", groupCounts(s.Groups))
	fmt.Fprintf(w, "held-out tasks   step   sampled   greedy\n")
	for _, e := range s.Eval {
		fmt.Fprintf(w, "%14d   %4d     %.3f    %.3f  %s\n", e.Tasks, e.Step, e.Reward, e.Greedy, strings.Repeat("#", int(e.Reward*40+0.5)))
	}
	if len(s.Yardsticks) > 0 {
		fmt.Fprintf(w, "\nyardsticks on the same tasks\n")
		for _, name := range byValue(s.Yardsticks) {
			v := s.Yardsticks[name]
			fmt.Fprintf(w, "%-28s %.3f           %s\n", strings.ReplaceAll(name, "_", " "), v, strings.Repeat("-", int(v*40+0.5)))
		}
	}
}

func groupCounts(m map[string]int) string {
	var parts []string
	for _, k := range sortedKeys(m) {
		parts = append(parts, fmt.Sprintf("%d %s", m[k], strings.ReplaceAll(k, "_", " ")))
	}
	return strings.Join(parts, ", ")
}

func byValue(m map[string]float64) []string {
	keys := sortedKeys(m)
	sort.SliceStable(keys, func(i, j int) bool { return m[keys[i]] < m[keys[j]] })
	return keys
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
