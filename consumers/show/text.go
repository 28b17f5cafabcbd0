package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/subjects"
)

// What is shown of a long text: its first and last lines.
const (
	foldOver = 24
	foldHead = 14
	foldTail = 6
	foldLine = 2000 // bytes of a line
)

// WriteText writes a trajectory as the conversation that it was: who said what,
// and under each of the model's answers what its turn took and brought. Long texts
// are folded unless all is set.
func WriteText(w io.Writer, t *subjects.Trajectory, all bool) {
	header(w, t)
	turn := 0
	for i := range t.Messages {
		m := &t.Messages[i]
		who := m.Role
		if m.Name != "" {
			who += " (" + m.Name + ")"
		}
		fmt.Fprintf(w, "\n%s\n  %s\n", who, strings.ReplaceAll(fold(m.Content, all), "\n", "\n  "))
		if m.Role == "assistant" && turn < len(t.Turns) {
			turnText(w, t, turn)
			turn++
		}
	}
	for ; turn < len(t.Turns); turn++ { // of which nobody kept the words
		turnText(w, t, turn)
	}
}

func header(w io.Writer, t *subjects.Trajectory) {
	fmt.Fprintf(w, "%s of %s (%s, seed %d): %s, reward %.3f", t.ID(), t.Environment, t.Kind, t.Seed, t.Status, t.Reward)
	if t.Reason != "" {
		fmt.Fprintf(w, " (%s)", t.Reason)
	}
	fmt.Fprintf(w, "\nplayed by %s on %s in %s, %d turns\n", t.Producer, t.Engine, time.Duration(t.Finished-t.Started).Round(time.Millisecond), len(t.Turns))
	var parts []string
	for name, v := range t.Components {
		parts = append(parts, fmt.Sprintf("%s %.3f", name, v))
	}
	if slices.Sort(parts); len(parts) > 0 {
		fmt.Fprintf(w, "reward is made of %s\n", strings.Join(parts, ", "))
	}
	for i, s := range t.Segments {
		fmt.Fprintf(w, "segment %d: %d tokens, %d sampled", i, len(s.Tokens), len(s.Logprobs))
		if s.Parent >= 0 {
			fmt.Fprintf(w, ", forks from segment %d after %d tokens", s.Parent, s.Shared)
		}
		for _, v := range s.Versions {
			fmt.Fprintf(w, ", [%d,%d) by version %d", v.Start, v.End, v.Version)
		}
		fmt.Fprintln(w)
	}
}

// turnText is one line on a turn.
func turnText(w io.Writer, t *subjects.Trajectory, i int) {
	u := &t.Turns[i]
	fmt.Fprintf(w, "  -- turn %d: %d tokens, %s to generate", i+1, u.Completion.End-u.Completion.Start, span(u.Queued, u.Generated))
	if u.Stepped > u.Generated && u.Generated > 0 {
		fmt.Fprintf(w, ", %s in the environment", span(u.Generated, u.Stepped))
	}
	if u.Cached > 0 {
		fmt.Fprintf(w, ", %d prompt tokens cached", u.Cached)
	}
	fmt.Fprintf(w, ", reward %.3f", u.Reward)
	if finish := cmp.Or(u.Finish, "stop"); finish != "stop" {
		fmt.Fprintf(w, ", ended by %s", finish)
	}
	if u.Segment > 0 {
		fmt.Fprintf(w, ", segment %d", u.Segment)
	}
	fmt.Fprintln(w)
}

// span is the time between two moments for people.
func span(from, to int64) string {
	if from <= 0 || to < from {
		return "?"
	}
	d := time.Duration(to - from)
	if d < 100*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// fold leaves out the middle of a long text, and what a terminal would obey.
func fold(s string, all bool) string {
	s = printable(strings.TrimRight(s, "\n"))
	if all {
		return s
	}
	lines := strings.Split(s, "\n")
	if n := len(lines); n > foldOver {
		left := fmt.Sprintf("[%d lines left out: -v shows them]", n-foldHead-foldTail)
		lines = slices.Concat(lines[:foldHead], []string{left}, lines[n-foldTail:])
	}
	for i, l := range lines {
		if len(l) > foldLine {
			lines[i] = fmt.Sprintf("%s [%d bytes left out: -v shows them]", strings.ToValidUTF8(l[:foldLine], ""), len(l)-foldLine)
		}
	}
	return strings.Join(lines, "\n")
}

// printable spells control characters out: a trajectory's text is a stranger's.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if (r < ' ' && r != '\n' && r != '\t') || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '�'
		}
		return r
	}, s)
}
