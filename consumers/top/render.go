package top

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/subjects"
)

// Picture is what is drawn.
type Picture struct {
	State *board.State
	Steps *board.Steps
}

// Screen is where it is drawn.
type Screen struct {
	Width, Height int // columns and lines; a Height of 0 has no end
	Colour        bool
}

const (
	labelWidth  = 10
	narrowest   = 24 // columns: below it nothing is readable
	shownSyncs  = 3
	shownEvals  = 3
	meanOfSteps = 10
)

// page is a picture that is being drawn.
type page struct {
	Picture
	width int
	out   []line
}

// Render draws the picture, each line no wider than the screen, and no more of
// them than it is high: of long tables the ends are left out.
func Render(p Picture, s Screen) []string {
	g := &page{Picture: p, width: max(s.Width, narrowest)}
	g.header()
	g.progress()
	g.reward()
	g.trainer()
	g.row("rates", ratesText(p.State))
	g.queues()
	g.groups()
	g.staleness()
	g.syncs()
	sentences := g.sentences()
	room := math.MaxInt
	if s.Height > 0 {
		room = s.Height - len(g.out) - len(sentences)
	}
	g.out = append(g.out, tables(p.State, g.width, room)...)
	g.out = append(g.out, sentences...)
	if s.Height > 0 && len(g.out) > s.Height {
		g.out = append(g.out[:max(0, s.Height-len(sentences))], sentences[:min(len(sentences), s.Height)]...)
	}
	text := make([]string, len(g.out))
	for i, l := range g.out {
		text[i] = l.fit(g.width).text(s.Colour)
	}
	return text
}

func (g *page) put(l line) { g.out = append(g.out, l) }

// labeled starts a line with its label.
func labeled(label string) *line {
	l := &line{}
	return l.add(faint, "%-*s", labelWidth, label)
}

func (g *page) row(label, text string) { g.put(*labeled(label).add(plain, "%s", text)) }

func (g *page) header() {
	s := g.State
	l := (&line{}).add(bold, "headrace %s", s.Run)
	if about := strings.Join(append([]string{s.Recipe}, s.Environments...), ", "); about != "" && s.Recipe != string(s.Run) {
		l.add(plain, "  %s", dedupe(s.Recipe, s.Environments))
	}
	switch {
	case s.End != "":
		l.add(ending(s), "  ended: %s", s.End)
	case s.Live:
		l.add(good, "  live")
	default:
		l.add(warn, "  nobody heard of")
	}
	end := s.Now
	if s.End != "" || !s.Live {
		end = lastTime(g.Picture)
	}
	l.add(faint, "  %s", seconds(max(end-s.Started, 0)))
	g.put(*l)
}

func ending(s *board.State) style {
	if subjects.Achieved(s.End) {
		return good
	}
	return bad
}

// dedupe is the recipe and what it plays, once where it has the same name.
func dedupe(recipe string, environments []string) string {
	out := []string{}
	if recipe != "" {
		out = append(out, recipe)
	}
	for _, e := range environments {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return strings.Join(out, ", ")
}

// lastTime is when the run was last heard of, by its steps and evaluations.
func lastTime(p Picture) board.Number {
	last := p.State.Started
	if n := p.Steps.Len(); n > 0 && !(float64(last) > p.Steps.At[n-1]) {
		last = board.Number(p.Steps.At[n-1])
	}
	for _, e := range p.State.Evals {
		if e.At > last {
			last = e.At
		}
	}
	return last
}

func (g *page) progress() {
	s := g.State
	l := labeled("step")
	if s.Step.Max > 0 {
		room := max(min(g.width/3, 40), 8)
		full := int(min(s.Step.Committed, s.Step.Max) * int64(room) / s.Step.Max)
		l.add(plain, "[").add(accent, "%s", strings.Repeat("=", full)).add(plain, "%s] %d/%d", strings.Repeat(" ", room-full), s.Step.Committed, s.Step.Max)
	} else {
		l.add(plain, "%d", s.Step.Committed)
	}
	if per := s.Trainer.StepSeconds; per.Known() {
		l.add(plain, "  %s a step", seconds(per))
		if left := s.Step.Max - s.Step.Committed; left > 0 && s.End == "" {
			l.add(faint, ", %s left", seconds(per*board.Number(left)))
		}
	}
	g.put(*l)
}

func (g *page) reward() {
	l := labeled("reward")
	mean, ok := g.Steps.Recent(meanOfSteps, g.Steps.Reward)
	if !ok {
		l.add(faint, "no step yet")
	} else {
		l.add(accent, "%s", sparkline(g.Steps.Reward, max(min(g.width/3, 60), 8))).add(plain, " %.3f", mean)
		l.add(faint, " mean of the last %d steps", min(meanOfSteps, int(g.State.Step.Committed)))
	}
	g.put(*l)
	if n := len(g.State.Evals); n > 0 {
		var parts []string
		for _, e := range g.State.Evals[max(0, n-shownEvals):] {
			parts = append(parts, fmt.Sprintf("@%d %.3f (greedy %.3f)", e.Round, e.Sampled.Or(0), e.Greedy.Or(0)))
		}
		g.row("held out", strings.Join(parts, "  "))
	}
}

var blocks = []rune("▁▂▃▄▅▆▇█")

// sparkline is a curve of n characters at most, each the mean of as many values.
func sparkline(column board.Column, n int) string {
	var means []float64
	low, high := math.Inf(1), math.Inf(-1)
	n = min(n, len(column))
	for i := range n {
		sum, count := 0.0, 0.0
		for _, x := range column[i*len(column)/n : (i+1)*len(column)/n] {
			if !math.IsNaN(x) && !math.IsInf(x, 0) {
				sum, count = sum+x, count+1
			}
		}
		means = append(means, sum/count)
		if count > 0 {
			low, high = min(low, sum/count), max(high, sum/count)
		}
	}
	var b strings.Builder
	for _, m := range means {
		switch {
		case math.IsNaN(m):
			b.WriteByte(' ')
		case high > low:
			b.WriteRune(blocks[int((m-low)/(high-low)*float64(len(blocks)-1)+.5)])
		default:
			b.WriteRune(blocks[0])
		}
	}
	return b.String()
}

// doing is a part of the trainer's time: its letter in the bar, its colour.
type doing struct {
	name  string
	mark  string
	style style
	part  board.Number
}

func doings(t *board.Times) []doing {
	return []doing{{"wait", ".", warn, t.Wait}, {"train", "#", good, t.Train}, {"prepare", "r", accent, t.Prepare}, {"compile", "c", bad, t.Compile},
		{"publish", "p", accent, t.Publish}, {"checkpoint", "k", accent, t.Checkpoint}, {"start", "s", faint, t.Start}}
}

func (g *page) trainer() {
	s := g.State
	l := labeled("trainer")
	if !s.Trainer.Recent.Wait.Known() && !s.Trainer.Recent.Train.Known() {
		g.put(*l.add(faint, "nothing yet"))
		return
	}
	room := max(min(g.width/4, 30), 8)
	l.add(plain, "[")
	done, sum := 0, 0.0
	parts := doings(&s.Trainer.Recent)
	for _, d := range parts {
		sum += d.part.Or(0)
		n := int(sum*float64(room)+.5) - done
		l.add(d.style, "%s", strings.Repeat(d.mark, max(n, 0)))
		done += max(n, 0)
	}
	l.add(plain, "%s]", strings.Repeat(" ", max(room-done, 0)))
	for _, d := range parts {
		if d.part.Or(0) >= .005 {
			l.add(plain, " %s %s", d.name, percent(d.part))
		}
	}
	g.put(*l)
	if w := s.Trainer.Wait; w.Known() {
		text := fmt.Sprintf("it waited %s of its time since the start", percent(w))
		if n := s.Trainer.Compiles; n > 0 {
			text += fmt.Sprintf(", %d compilations", n)
		}
		if n := s.Trainer.Resumes; n > 0 {
			text += fmt.Sprintf(", resumed %d times", n)
		}
		g.put(*labeled("").add(faint, "%s", text))
	}
}

func ratesText(s *board.State) string {
	return fmt.Sprintf("%s trajectories/s  %s tokens/s sampled  %s trained  %s/s", count(s.Rates.Trajectories), count(s.Rates.Tokens), count(s.Rates.TrainedTokens), size(s.Rates.Bytes))
}

func (g *page) queues() {
	var parts []string
	for _, q := range g.State.Queues {
		part := q.Name + " " + count(q.Trajectories)
		if q.Bytes.Known() && q.Bytes > 0 {
			part += " (" + size(q.Bytes) + ")"
		}
		parts = append(parts, part)
	}
	g.parts("queues", parts)
}

// parts puts a list under a label, on as many lines as it takes.
func (g *page) parts(label string, parts []string) {
	text := ""
	for _, p := range parts {
		if text != "" && width(text)+2+width(p) > g.width-labelWidth {
			g.row(label, text)
			label, text = "", ""
		}
		if text != "" {
			text += "  "
		}
		text += p
	}
	g.row(label, text)
}

func (g *page) groups() {
	s := g.State
	open := fmt.Sprintf("%s open", count(s.Groups.Open))
	if s.Groups.Oldest.Known() {
		open += " (oldest " + seconds(s.Groups.Oldest) + ")"
	}
	parts := []string{fmt.Sprintf("%d issued", s.Groups.Issued), open}
	for _, o := range []subjects.Outcome{subjects.Kept, subjects.Partial, subjects.ZeroVariance, subjects.Expired, subjects.TooFew, subjects.Stale, subjects.Cancelled} {
		if n := s.Groups.Outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, words(string(o))))
		}
	}
	if n := s.Groups.Retries; n > 0 {
		parts = append(parts, fmt.Sprintf("%d slots retried", n))
	}
	g.parts("groups", parts)
	t := &s.Trajectories
	parts = []string{fmt.Sprintf("%d produced", t.Produced), fmt.Sprintf("%d trained", t.Trained), fmt.Sprintf("%d open", t.Open)}
	g.parts("episodes", append(parts, dropped(t.Dropped)...))
}

// dropped are the reasons, the most frequent first.
func dropped(m map[string]int64) (parts []string) {
	reasons := make([]string, 0, len(m))
	for reason := range m {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		if m[a] != m[b] {
			return int(max(min(m[b]-m[a], 1), -1))
		}
		return strings.Compare(a, b)
	})
	for _, reason := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", m[reason], words(reason)))
	}
	return parts
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

func (g *page) staleness() {
	h, all := &g.State.Staleness, int64(0)
	for _, n := range h.Trajectories {
		all += n
	}
	if all == 0 {
		return
	}
	var parts []string
	for i, n := range h.Trajectories {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d: %.0f%%", h.Versions[i], 100*float64(n)/float64(all)))
		}
	}
	g.parts("staleness", append(parts, fmt.Sprintf("steps behind, %d allowed", g.State.StalenessMaxAllowed)))
}

func (g *page) syncs() {
	var parts []string
	for _, y := range g.State.Syncs[:min(len(g.State.Syncs), shownSyncs)] {
		part := fmt.Sprintf("%s v%d in %s", y.Engine, y.Version, seconds(y.Seconds))
		if y.Error != "" {
			part = fmt.Sprintf("%s v%d: %s", y.Engine, y.Version, y.Error)
		}
		parts = append(parts, part)
	}
	if len(parts) > 0 {
		g.parts("syncs", parts)
	}
}

// sentences are the watchdog's and the adviser's.
func (g *page) sentences() (out []line) {
	say := func(label string, s style, text string) {
		for _, part := range wrap(clean(text), max(g.width-labelWidth, 8)) {
			out = append(out, *labeled(label).add(s, "%s", part))
			label = ""
		}
	}
	s := g.State
	if st := s.Stall; st != nil {
		say("stalled", bad, fmt.Sprintf("%s, since %s: %s", st.Code, clock(st.Since), st.Text))
	}
	if s.EndText != "" {
		say("end", plain, s.EndText)
	}
	for i, a := range s.Advice {
		if i > 1 || s.Stall != nil && a.Text != "" && i == 0 && a.Code == "stall" {
			continue // said above
		}
		label := "advice"
		if i > 0 {
			label = "also"
		}
		say(label, bold, a.Text)
		if a.Knob != "" {
			say("", plain, "→ "+a.Knob)
		}
	}
	return out
}

func clock(n board.Number) string {
	return time.Unix(int64(n.Or(0)), 0).Format("15:04:05")
}
