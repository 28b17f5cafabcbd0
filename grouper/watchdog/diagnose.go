package watchdog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/subjects"
)

// Diagnose says what the run waits for, by the most specific cause that can be
// seen. It is for a run in which nothing moves.
func (p *Picture) Diagnose() Cause {
	switch p.View.Next.Wait {
	case grouper.WaitCommit:
		return p.trainer()
	case grouper.WaitInspection:
		return p.inspection()
	case grouper.WaitVersion:
		return p.because(subjects.StageEngine, subjects.NoEngine, "%s", p.serving())
	case grouper.WaitMembers, grouper.WaitAnything:
		if len(p.live()) == 0 {
			return p.noProducers()
		}
		return p.because(subjects.StageProducer, subjects.NoBatch, "nothing comes from %s", p.who())
	}
	return p.tasks()
}

// because is a cause in the light of what is waited for.
func (p *Picture) because(stage string, code subjects.StallCode, format string, args ...any) Cause {
	return Cause{stage, code, "grouper waits for " + p.View.Next.String() + ": " + fmt.Sprintf(format, args...)}
}

// tasks is why nothing comes of the tasks that are out.
func (p *Picture) tasks() Cause {
	live, holders := p.live(), p.holders()
	switch {
	case len(live) == 0:
		return p.noProducers()
	case p.full():
		return p.because(subjects.StageBus, subjects.RolloutsFull, "ROLLOUTS is full%s; room comes with the trainer's checkpoints, or with a larger retention.rollouts", p.use())
	}
	if c, missing := p.engines(live); missing {
		return c
	}
	if len(holders) > 0 {
		return Cause{subjects.StageProducer, subjects.SlotsLeased, "grouper waits for " + p.View.Next.String() + p.leased(holders)}
	}
	held := 0
	for i := range live {
		held += live[i].Held
	}
	if held > 0 {
		return p.because(subjects.StageProducer, subjects.SlotsLeased, "in the queue, while %s at work on %d others", p.whoIs(), held)
	}
	return p.because(subjects.StageProducer, subjects.NoProducers, "in the queue, and none is taken by %s", p.who())
}

func (p *Picture) noProducers() Cause {
	last := Producer{}
	for _, x := range p.Producers {
		if x.Heard.After(last.Heard) {
			last = x
		}
	}
	what := "no producer is connected"
	if last.Name != "" {
		what += fmt.Sprintf("; the last one, %s, was heard of %s ago", last.Name, seconds(p.Now.Sub(last.Heard)))
	}
	c := p.because(subjects.StageProducer, subjects.NoProducers, "%s", what)
	if h := p.holders(); len(h) > 0 {
		c.Text = "grouper waits for " + p.View.Next.String() + p.leased(h) + "; no producer is connected"
	}
	return c
}

// leased says who holds what is waited for.
func (p *Picture) leased(holders []holder) string {
	h := holders[0]
	text := fmt.Sprintf(", leased to producer %s for %s, last heartbeat %s ago", h.Name, seconds(h.age), seconds(p.Now.Sub(h.Heard)))
	if n := len(holders) - 1; n > 0 {
		text += fmt.Sprintf(", and to %d more", n)
	}
	return text
}

// who names the producers that are connected.
func (p *Picture) who() string {
	live := p.live()
	if len(live) == 1 {
		return "producer " + live[0].Name
	}
	return fmt.Sprintf("the %d producers that are connected", len(live))
}

func (p *Picture) whoIs() string {
	if len(p.live()) == 1 {
		return p.who() + " is"
	}
	return p.who() + " are"
}

// full reports whether producers wait for room in ROLLOUTS.
func (p *Picture) full() bool {
	nearly := p.RolloutLimit > 0 && p.RolloutBytes >= p.RolloutLimit-p.RolloutLimit/10
	blocked := slices.ContainsFunc(p.live(), func(x Producer) bool { return x.Blocked })
	return blocked && (nearly || p.RolloutLimit <= 0) || p.RolloutLimit > 0 && p.RolloutBytes >= p.RolloutLimit-p.RolloutLimit/100
}

func (p *Picture) use() string {
	if p.RolloutLimit <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%s of %s)", size(p.RolloutBytes), size(p.RolloutLimit))
}

// engines is why no engine can be used, if that is so.
func (p *Picture) engines(live []Producer) (Cause, bool) {
	unreached := !slices.ContainsFunc(live, func(x Producer) bool { return x.EnginesLive != 0 })
	ready := slices.ContainsFunc(p.Engines, func(e subjects.EngineRecord) bool { return e.Ready })
	b, known := p.bridge()
	switch {
	case p.EnginesKnown && len(p.Engines) == 0:
		return p.because(subjects.StageEngine, subjects.NoEngine, "no engine is registered"), true
	case p.EnginesKnown && !ready && (!known || p.silent(b.Heard) || b.Trainers == 0):
		c := p.trainer()
		return p.because(c.Stage, c.Code, "no engine has weights, and %s", p.lacks()), true
	case p.EnginesKnown && !ready:
		return p.because(subjects.StageEngine, subjects.NoEngine, "no engine has weights yet (%s)%s", p.names(), b.said()), true
	case unreached:
		return p.because(subjects.StageEngine, subjects.NoEngine, "no producer reaches an engine (%s)", p.serving()), true
	}
	return Cause{}, false
}

func (p *Picture) names() string {
	var out []string
	for i := range p.Engines {
		out = append(out, p.Engines[i].Engine)
	}
	return few(out)
}

func (p *Picture) serving() string {
	if len(p.Engines) == 0 {
		return "no engine is registered"
	}
	var out []string
	for i := range p.Engines {
		if e := &p.Engines[i]; e.Version == subjects.NoVersion {
			out = append(out, e.Engine+" has no weights")
		} else {
			out = append(out, fmt.Sprintf("%s serves version %d", e.Engine, e.Version))
		}
	}
	return few(out)
}

// trainer is why the trainer does not commit.
func (p *Picture) trainer() Cause {
	b, known := p.bridge()
	step := p.View.Next.Step
	switch {
	case !known || p.silent(b.Heard):
		return p.because(subjects.StageBridge, subjects.BridgeGone, "%s", p.lacks())
	case b.Trainers == 0:
		return p.because(subjects.StageTrainer, subjects.WaitingTrainer, "%s", p.lacks())
	case b.Delivered >= step:
		return p.because(subjects.StageTrainer, subjects.WaitingTrainer, "the trainer has its batch and has not committed it%s", b.said())
	case b.Ready > 0:
		return p.because(subjects.StageTrainer, subjects.WaitingTrainer, "its batch is ready and the trainer has not asked for it%s", b.said())
	}
	return p.because(subjects.StageBridge, subjects.NoBatch, "the bridge %s has not built its batch", b.Name)
}

// lacks says which of bridge and trainer is not there.
func (p *Picture) lacks() string {
	switch b, known := p.bridge(); {
	case !known:
		return "no bridge is connected"
	case p.silent(b.Heard):
		return fmt.Sprintf("the bridge %s was last heard of %s ago", b.Name, seconds(p.Now.Sub(b.Heard)))
	default:
		return "no trainer is connected to the bridge " + b.Name
	}
}

func (b *Bridge) said() string {
	if b.Says == "" {
		return ""
	}
	return "; it says: " + b.Says
}

// inspection is why what is waited for is not inspected.
func (p *Picture) inspection() Cause {
	switch b, known := p.bridge(); {
	case p.HintAt.IsZero() && (!known || p.silent(b.Heard)):
		return p.because(subjects.StageBridge, subjects.BridgeGone, "%s, so nobody inspects", p.lacks())
	case p.HintAt.IsZero():
		return p.because(subjects.StageBridge, subjects.BridgeGone, "nothing was heard of an inspector")
	case p.silent(p.HintAt):
		return p.because(subjects.StageBridge, subjects.BridgeGone, "the bridge's inspector was last heard of %s ago", seconds(p.Now.Sub(p.HintAt)))
	}
	return p.because(subjects.StageBridge, subjects.InspectorBehind, "the bridge has read ROLLOUTS up to %d of %d", p.Inspected, p.Last)
}

// filtered is why no batch comes although groups close, if all of the last ones
// were dropped.
func (p *Picture) filtered() (Cause, bool) {
	if len(p.Closed) < Recent {
		return Cause{}, false
	}
	last := p.Closed[len(p.Closed)-Recent:]
	counts := map[subjects.Outcome]int{}
	for _, o := range last {
		if o.Trained() {
			return Cause{}, false
		}
		counts[o]++
	}
	all := fmt.Sprintf("all of the last %d groups were ", Recent)
	switch {
	case counts[subjects.ZeroVariance] == Recent:
		return Cause{subjects.StageGrouper, subjects.AllZeroVariance, all + "zero-variance: each one's rewards are equal, so there is nothing to learn from them"}, true
	case counts[subjects.Stale] == Recent:
		return Cause{subjects.StageEngine, subjects.AllStale, fmt.Sprintf("%sstale: too old for the batch of step %d; %s", all, p.View.NextStep, p.serving())}, true
	}
	var parts []string
	for _, o := range []subjects.Outcome{subjects.ZeroVariance, subjects.Stale, subjects.TooFew, subjects.Expired, subjects.Cancelled} {
		if n := counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " ")))
		}
	}
	return Cause{subjects.StageGrouper, subjects.AllFiltered, all + "dropped: " + strings.Join(parts, ", ")}, true
}

// few lists the first of many.
func few(list []string) string {
	const most = 4
	if n := len(list) - most; n > 0 {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("%d more", n))
	}
	return strings.Join(list, ", ")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", max(0, d.Seconds())) }

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
