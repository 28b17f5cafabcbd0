package top

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/consumers/board"
)

// sentences are the watchdog's and the adviser's.
func (g *page) sentences() {
	say := func(label string, look style, text string) (out []line) {
		for _, part := range wrap(clean(text), max(g.width-labelWidth, 8)) {
			out = append(out, *labeled(label).add(look, "%s", part))
			label = ""
		}
		return out
	}
	s := g.State
	if st := s.Stall; st != nil {
		g.put(rankHeader, say("stalled", bad, fmt.Sprintf("%s, since %s: %s", st.Code, clock(st.Since), st.Text))...)
	}
	if s.EndText != "" {
		g.put(rankHeader, say("end", plain, s.EndText)...)
	}
	label, rank := "advice", rankAdvice
	for i, a := range s.Advice {
		if i > 1 || i == 0 && s.Stall != nil {
			continue // said above
		}
		lines := say(label, bold, a.Text)
		if a.Knob != "" {
			lines = append(lines, say("", plain, "→ "+a.Knob)...)
		}
		g.put(rank, lines...)
		label, rank = "also", rankAlso
	}
}

func clock(n board.Number) string {
	return time.Unix(int64(n.Or(0)), 0).Format("15:04:05")
}
