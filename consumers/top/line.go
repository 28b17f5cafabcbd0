package top

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/consumers/board"
)

// Line is the picture in one line, for a log.
func Line(p Picture) string {
	s := p.State
	parts := []string{clock(s.Now), "step " + fmt.Sprint(s.Step.Committed)}
	if s.Step.Max > 0 {
		parts[1] += fmt.Sprintf("/%d", s.Step.Max)
	}
	if mean, ok := p.Steps.Recent(meanOfSteps, p.Steps.Reward); ok {
		parts = append(parts, fmt.Sprintf("reward %.3f", mean))
	}
	if per := s.Trainer.StepSeconds; per.Known() {
		parts = append(parts, seconds(per)+" a step")
	}
	if w := s.Trainer.Recent.Wait; w.Known() {
		parts = append(parts, "trainer waits "+percent(w))
	}
	if busy := meanBusy(s.Engines); busy.Known() {
		parts = append(parts, "engines busy "+percent(busy))
	}
	if r := s.Rates.Tokens; r.Known() {
		parts = append(parts, count(r)+" tokens/s")
	}
	parts = append(parts, count(s.Groups.Open)+" groups open")
	if !s.Live && s.End == "" {
		parts = append(parts, "nobody is heard of")
	}
	switch {
	case s.End != "":
		parts = append(parts, strings.TrimSuffix("ended: "+s.End+": "+s.EndText, ": "))
	case s.Stall != nil:
		parts = append(parts, "stalled: "+string(s.Stall.Code)+": "+s.Stall.Text)
	case len(s.Advice) > 0:
		parts = append(parts, s.Advice[0].Code+": "+s.Advice[0].Text)
	}
	return clean(strings.Join(parts, "  "))
}

func meanBusy(list []board.Engine) board.Number {
	sum, n := 0.0, 0.0
	for i := range list {
		if list[i].Busy.Known() {
			sum, n = sum+float64(list[i].Busy), n+1
		}
	}
	return board.Number(sum / n)
}
