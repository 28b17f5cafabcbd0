package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/subjects"
)

func (g *page) header() {
	s := g.State
	l := (&line{}).add(bold, "headrace %s", s.Run)
	switch {
	case s.End != "":
		l.add(ending(s), "  ended: %s", s.End)
	case s.Live:
		l.add(good, "  live")
	default:
		l.add(warn, "  nobody is heard of")
	}
	end := s.Now
	if s.End != "" || !s.Live {
		end = lastTime(g.Picture)
	}
	if s.Started.Known() {
		l.add(faint, "  %s", seconds(max(end-s.Started, 0)))
	}
	if about := dedupe(s.Recipe, s.Environments); about != "" {
		l.add(plain, "  %s", about)
	}
	g.put(rankHeader, *l)
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
	g.put(rankStep, *l)
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
	g.put(rankReward, *l)
	if n := len(g.State.Evals); n > 0 {
		var parts []string
		for _, e := range g.State.Evals[max(0, n-shownEvals):] {
			parts = append(parts, fmt.Sprintf("@%d %.3f (greedy %.3f)", e.Round, e.Sampled.Or(0), e.Greedy.Or(0)))
		}
		g.list(rankHeldOut, "held out", parts)
	}
}
