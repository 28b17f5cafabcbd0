package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/headrace/headrace/subjects"
)

const (
	redrawEvery = 500 * time.Millisecond // of the view on a terminal
	recentSteps = 10                     // over which the view averages
	barWidth    = 30
)

// view draws a run's board in place on a terminal. What is written to it, log
// lines, scrolls by above.
type view struct {
	out   io.Writer
	board *Board
	title string
	hint  string // how another producer joins
	plain bool   // no colour: NO_COLOR

	mu    sync.Mutex
	drawn []string // last time
}

// Write puts a log line above the view.
func (v *view) Write(line []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, err := io.WriteString(v.out, v.erase()); err != nil {
		return 0, err
	}
	v.drawn = nil
	return v.out.Write(line)
}

// erase is what takes the cursor back to the view's first line and clears it.
// On a terminal that became narrower since, a line is several.
func (v *view) erase() string {
	rows, width := len(v.drawn), v.width()
	for _, line := range v.drawn {
		if n := len([]rune(unstyled.Replace(line))); width > 0 && n > width {
			rows += (n - 1) / width
		}
	}
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", rows) // \r: the ^C that a terminal echoes moves the cursor
}

const styleBold, styleEnd = "\x1b[1m", "\x1b[0m"

// unstyled takes out what [view.bold] puts in.
var unstyled = strings.NewReplacer(styleBold, "", styleEnd, "")

// run redraws until ctx is done, and once more at the end.
func (v *view) run(ctx context.Context) {
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			v.draw()
			return
		case <-tick.C:
			v.draw()
		}
	}
}

func (v *view) draw() {
	s := v.board.State()
	lines := v.render(&s)
	v.mu.Lock()
	defer v.mu.Unlock()
	text := v.erase() + strings.Join(lines, "\n") + "\n"
	v.drawn = lines
	io.WriteString(v.out, text) //nolint:errcheck // a closed terminal ends the program elsewhere
}

// width of the terminal in columns; 0: unknown.
func (v *view) width() int {
	if f, ok := v.out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// fit cuts a line to the terminal's width.
func fit(line string, width int) string {
	if r := []rune(line); width > 1 && len(r) >= width {
		return string(r[:width-2]) + "…"
	}
	return line
}

// joinLines are the command that another producer joins with: whole, since it
// is there to be copied.
func joinLines(hint string, width int) []string {
	line := "join      " + hint
	at := strings.LastIndex(line, " --")
	if width == 0 || len(line) < width || at < 0 {
		return []string{line}
	}
	return []string{line[:at] + " \\", "           " + line[at:]}
}

func (v *view) bold(s string) string {
	if v.plain {
		return s
	}
	return styleBold + s + styleEnd
}

func (v *view) render(s *BoardState) []string {
	done := s.Committed()
	lines := []string{
		v.bold(v.title) + "  " + time.Since(s.Began).Round(time.Second).String(),
		fmt.Sprintf("step      %s %d/%d", bar(done, s.Step.Max), done, s.Step.Max),
		"reward    " + trainLine(s),
		"held out  " + evalLine(s),
		"speed     " + speedLine(s),
		"freshness " + freshLine(s),
		"groups    " + groupLine(s),
		"waiting   " + waitLine(s),
	}
	if s.Stall != nil {
		lines = append(lines, "stalled   "+stallLine(s))
	}
	if text := adviceLine(s); text != "" {
		lines = append(lines, "advice    "+text)
	}
	width := v.width()
	for i := range lines[1:] {
		lines[i+1] = fit(lines[i+1], width)
	}
	if v.hint != "" {
		lines = append(lines, joinLines(v.hint, width)...)
	}
	return lines
}

func bar(done, total int64) string {
	if total <= 0 {
		return ""
	}
	full := int(min(done, total) * barWidth / total)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full) + "]"
}

func trainLine(s *BoardState) string {
	reward, ok := s.Recent(recentSteps, s.Rows.Reward)
	if !ok {
		return "no step yet"
	}
	return fmt.Sprintf("%.3f in training, mean of the last %d steps", reward, min(recentSteps, int(s.Committed())))
}

func evalLine(s *BoardState) string {
	if len(s.Evals) == 0 {
		return "not measured yet"
	}
	var parts []string
	for _, e := range s.Evals[max(0, len(s.Evals)-6):] {
		parts = append(parts, fmt.Sprintf("@%d %.3f (greedy %.3f)", e.Round, e.Sampled, e.Greedy))
	}
	return strings.Join(parts, "  ")
}

func speedLine(s *BoardState) string {
	per := s.Trainer.StepSeconds
	if !per.Known() {
		return "-"
	}
	return fmt.Sprintf("%.2f s a step, %s tokens/s, trainer waits %.0f%% of its time", per, count(s.Trainer.TokensPerSecond.Or(0)), 100*s.WaitFraction())
}

func freshLine(s *BoardState) string {
	mean, ok := s.Recent(recentSteps, s.Rows.StalenessMean)
	if !ok {
		return "-"
	}
	engines := make([]string, 0, len(s.Engines))
	for i := range s.Engines {
		engines = append(engines, fmt.Sprintf("%s serves %d", s.Engines[i].Name, s.Engines[i].Version))
	}
	return fmt.Sprintf("%.2f steps stale; weights %d published, %s", mean, s.Trainer.Version, strings.Join(engines, ", "))
}

func groupLine(s *BoardState) string {
	parts := []string{fmt.Sprintf("%d issued", s.Groups.Issued)}
	for _, o := range []subjects.Outcome{subjects.Kept, subjects.Partial, subjects.ZeroVariance, subjects.Expired,
		subjects.TooFew, subjects.Stale, subjects.Cancelled} {
		if n := s.Groups.Outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " ")))
		}
	}
	if n := s.Groups.Retries; n > 0 {
		parts = append(parts, fmt.Sprintf("%d slots retried", n))
	}
	return strings.Join(parts, ", ")
}

// stallLine is why the run stands still.
func stallLine(s *BoardState) string {
	return fmt.Sprintf("%s, since %s: %s", s.Stall.Code, time.Unix(int64(s.Stall.Since.Or(0)), 0).Format("15:04:05"), s.Stall.Text)
}

// waitLine joins what each role says of itself.
func waitLine(s *BoardState) string {
	if s.Stall != nil {
		return s.Stall.Text
	}
	var parts []string
	for i := range s.Roles {
		if r := &s.Roles[i]; r.Text != "" && r.Heard.Or(0) < 10 {
			parts = append(parts, r.Role+": "+strings.TrimPrefix(r.Text, "waiting for "))
		}
	}
	if len(parts) == 0 && s.Committed() == 0 {
		return "the trainer and the engine to start (JAX loads and compiles)"
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func count(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.1fM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.1fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

const logEvery = 10 * time.Second // without a terminal, when steps are slow

// logProgress is the view for a log: a line for every tenth step and, when
// nothing else was said for a while, for what is waited for. Evaluations are
// the grouper's to report.
func logProgress(ctx context.Context, board *Board, log zerolog.Logger) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var step int64
	said := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s := board.State()
		if now := s.Committed(); now >= step+recentSteps || (now > step && (step == 0 || time.Since(said) > logEvery)) {
			step = now
			logStep(&s, log)
			said = time.Now()
		}
		if time.Since(said) > logEvery {
			e := log.Info().Str("waiting", waitLine(&s))
			if s.Stall != nil {
				e = e.Str("stalled", string(s.Stall.Code))
			}
			e.Msg("running")
			said = time.Now()
		}
	}
}

func logStep(s *BoardState, log zerolog.Logger) {
	reward, _ := s.Recent(recentSteps, s.Rows.Reward)
	stale, _ := s.Recent(recentSteps, s.Rows.StalenessMean)
	e := log.Info()
	if text := adviceLine(s); text != "" {
		e = e.Str("advice", text)
	}
	e.Int64("step", s.Committed()).Int64("of", s.Step.Max).Float64("reward", round3(reward)).
		Float64("seconds_a_step", round3(s.Trainer.StepSeconds.Or(0))).Float64("staleness", round3(stale)).
		Float64("trainer_wait", round3(s.WaitFraction())).Msg("training")
}

func round3(v float64) float64 { return float64(int64(v*1000+0.5)) / 1000 }
