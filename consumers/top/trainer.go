package top

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/consumers/board"
)

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
	times := spent(s)
	if !times.Wait.Known() && !times.Train.Known() {
		g.put(rankTrainer, *labeled("trainer").add(faint, "nothing yet"))
		return
	}
	doing := doings(&times)
	l := bar(doing, max(min(g.width/4, 30), 8))
	var parts []string
	for _, d := range doing {
		if d.part.Or(0) >= .005 {
			parts = append(parts, d.name+" "+percent(d.part))
		}
	}
	lines := flow(parts, g.width-labelWidth, l.width()+1-labelWidth)
	out := []line{*l.add(plain, " %s", lines[0])}
	for _, text := range lines[1:] {
		out = append(out, *labeled("").add(plain, "%s", text))
	}
	g.put(rankTrainer, out...)
	if w := s.Trainer.Wait; w.Known() {
		parts := []string{percent(w) + " waiting since the start"}
		if now := overdue(&s.Trainer); now != "" {
			parts = append(parts, now)
		}
		if n := s.Trainer.Compiles; n > 0 {
			parts = append(parts, plural(n, "compilation"))
		}
		if n := s.Trainer.Resumes; n > 0 {
			parts = append(parts, "resumed "+plural(n, "time"))
		}
		g.list(rankWaited, "", parts)
	}
}

// overdue is what the trainer is at, if that takes longer than its steps do.
func overdue(t *board.Trainer) string {
	wait, train := t.NowWait.Or(0), t.NowTrain.Or(0)
	switch {
	case !(wait+train >= max(t.StepSeconds.Or(0), 10)):
		return ""
	case train > 0:
		return "has trained " + seconds(board.Number(train)) + " on this step"
	}
	return "has waited " + seconds(board.Number(wait)) + " for a batch"
}

// spent are the parts of the trainer's last minute, or, of a run that ended, of all
// its time.
func spent(s *board.State) board.Times {
	if s.End == "" {
		return s.Trainer.Recent
	}
	t := s.Trainer.Seconds
	sum := board.Number(0)
	all := []*board.Number{&t.Wait, &t.Train, &t.Checkpoint, &t.Publish, &t.Prepare, &t.Compile, &t.Start}
	for _, x := range all {
		sum += *x
	}
	for _, x := range all {
		*x /= sum
	}
	return t
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// bar is what the trainer did as a bar of so many characters.
func bar(parts []doing, room int) *line {
	l := labeled("trainer").add(plain, "[")
	done, sum := 0, 0.0
	for _, d := range parts {
		sum += d.part.Or(0)
		n := max(min(int(sum*float64(room)+.5), room)-done, 0)
		l.add(d.style, "%s", strings.Repeat(d.mark, n))
		done += n
	}
	return l.add(plain, "%s]", strings.Repeat(" ", room-done))
}
