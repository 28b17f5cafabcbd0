package advise

import (
	"fmt"
	"math"
	"strings"

	"github.com/headrace/headrace/consumers/board"
)

// Thresholds; docs/observe.md has their reasons.
const (
	waits       = .15 // of its time: the trainer waits, and something before it limits
	full        = .75 // of its time: an engine's device is busy
	mostly      = .5  // of the episodes' time: the environment takes it
	compiles    = .10 // of its time: the trainer compiles
	writing     = .25 // of its time: the trainer writes weights and checkpoints
	idles       = .10 // of the time: nobody plays
	idlesMost   = .20 // of the time: that is why engines and slots are not used
	straggling  = .50 // of what the engines could compute: used; more, and it is not a few that are waited for
	tailed      = 3.0 // times as long as half of the groups: the slowest twentieth
	wasted      = .30 // of the groups: dropped for equal rewards
	wastedMost  = .50 // of the groups: that is what limits
	staled      = .05 // of the groups: dropped as too old
	missed      = .50 // of the prompt tokens: found in the cache
	longPrompts = 3.0 // prompt tokens for a sampled one
	thin        = .50 // of the rows: in use
	busyEnough  = .50 // of its time: an engine's batches are worth a look
)

// reason outranks what it explains by this.
const reason = .01

func newFinding(code string, weight float64, text, knob string, evidence ...board.Evidence) *finding {
	return &finding{board.Advice{Code: code, Text: text, Knob: knob, Evidence: evidence}, weight}
}

func percent(name string, x float64) board.Evidence {
	return board.Evidence{Name: name, Value: board.Number(round(100 * x)), Unit: "%"}
}

func figure(name string, x float64, unit string) board.Evidence {
	return board.Evidence{Name: name, Value: board.Number(round(x)), Unit: unit}
}

// round keeps one place: more is not known.
func round(x float64) float64 { return math.Round(10*x) / 10 }

func engineBound(f *facts) *finding {
	if f.wait < waits || f.env >= mostly || float64(f.v.RowFill) < thin { // half empty: see smallBatches
		return nil
	}
	knob := "more engines (engine.count under `headrace up`, another `headrace engine` elsewhere) or faster ones; shorter answers (sampling.max_new_tokens)"
	switch {
	case f.busy >= full:
		return newFinding(EngineBound, f.wait*f.busy, fmt.Sprintf("The engines limit the run: they compute %.0f%% of the time, and the trainer waits %.0f%% of its own.", 100*f.busy, 100*f.wait),
			knob, percent("engines busy", f.busy), percent("trainer waits", f.wait), percent("episodes wait for an engine", f.generate))
	case f.generate >= full && !f.starved() && !(f.idle >= idlesMost) && longTail(f) == nil:
		return newFinding(EngineBound, f.wait*f.generate, fmt.Sprintf("The engines limit the run: episodes spend %.0f%% of their time in calls of them, and the trainer waits %.0f%% of its own.", 100*f.generate, 100*f.wait),
			knob, percent("episodes wait for an engine", f.generate), percent("trainer waits", f.wait), percent("engines busy", f.busy), figure("requests queued for each that runs", f.queued, ""))
	}
	return nil
}

func environmentBound(f *facts) *finding {
	if f.wait < waits || !(f.env >= mostly) || f.busy >= full && float64(f.v.RowFill) >= thin {
		return nil
	}
	knob := "more episodes at once (producer.episodes) or more producers (`headrace produce`), on machines with room for them; a faster environment"
	if f.taken < .9 { // more of them would be as free
		knob = "a faster environment; slots are free, so " + moreTasks
	}
	return newFinding(EnvironmentBound, f.wait*f.env, fmt.Sprintf("The environment limits the run: episodes spend %.0f%% of their time in it, and the trainer waits %.0f%% of its own.", 100*f.env, 100*f.wait),
		knob, percent("episodes wait for the environment", f.env), percent("trainer waits", f.wait), percent("engines busy", f.busy), percent("slots taken", f.taken))
}

func trainerBound(f *facts) *finding {
	if f.wait >= waits || f.busy >= full {
		return nil
	}
	text := fmt.Sprintf("The trainer limits the run: it waits %.0f%% of its time only", 100*f.wait)
	if !math.IsNaN(f.busy) {
		text += fmt.Sprintf(", while the engines compute %.0f%% of theirs", 100*f.busy)
	}
	knob := "a faster trainer, or a larger trainer.micro_batch where memory allows; or spend the idle engines: larger groups (grouper.group_size)"
	if f.writes >= writing {
		text += fmt.Sprintf("; %.0f%% go into writing weights and checkpoints", 100*f.writes)
		knob = "weights less often (trainer.sync_every), checkpoints less often (trainer.checkpoint_every), no waiting for engines (trainer.wait_weights.need: none)"
	}
	return newFinding(TrainerBound, 1-f.wait, text+".", knob, percent("trainer waits", f.wait), percent("trainer trains", f.train),
		percent("trainer writes weights and checkpoints", f.writes), percent("engines busy", f.busy))
}

func balanced(f *facts) *finding {
	if f.wait >= waits || !(f.busy >= full) {
		return nil
	}
	return newFinding(Balanced, 1-f.wait, fmt.Sprintf("Trainer and engines are both at work: the trainer waits %.0f%% of its time, the engines compute %.0f%% of theirs.", 100*f.wait, 100*f.busy),
		"nothing: only more of both makes it faster", percent("trainer waits", f.wait), percent("engines busy", f.busy))
}

func recompiles(f *facts) *finding {
	if f.compile < compiles {
		return nil
	}
	weight := f.compile
	if f.wait < waits {
		weight = max(weight, 1-f.wait+reason) // why the trainer limits
	}
	return newFinding(Recompiles, weight, fmt.Sprintf("The trainer compiles %.0f%% of its time: batches keep coming in new shapes.", 100*f.compile),
		"fewer shapes: fewer bridge.buckets and trainer.buckets, and bridge.rows at the usual size of a batch",
		percent("trainer compiles", f.compile), figure("compilations since the start", float64(f.v.State.Trainer.Compiles), ""))
}

// turns: the bound on staleness makes producers and trainer wait for each other.
func turns(f *facts) *finding {
	if f.wait < waits || !(f.idle >= idles) {
		return nil
	}
	allowed := f.v.State.StalenessMaxAllowed
	return newFinding(Staleness, f.idle+f.wait/2, fmt.Sprintf("Producers and trainer take turns: nothing is played %.0f%% of the time, since grouper.max_staleness is %d, and the trainer waits %.0f%% of its own.", 100*f.idle, allowed, 100*f.wait),
		fmt.Sprintf("grouper.max_staleness: %d lets them work at the same time, on data a step older", allowed+1),
		percent("nothing in flight", f.idle), percent("trainer waits", f.wait), figure("staleness allowed", float64(allowed), "steps"))
}

func staleGroups(f *facts) *finding {
	if !(f.stale >= staled) {
		return nil
	}
	weight := f.stale
	if f.wait >= waits {
		weight = max(f.stale, f.wait*outranks(f.stale))
	}
	return newFinding(Staleness, weight, fmt.Sprintf("%.0f%% of the groups are dropped as too old when their batch is cut: what was played for them is lost.", 100*f.stale),
		fmt.Sprintf("grouper.max_staleness: %d, or fewer groups at once (grouper.max_open_groups), or grouper.order: oldest", f.v.State.StalenessMaxAllowed+1),
		percent("groups dropped as stale", f.stale), figure("of the last groups", float64(f.v.Closed), ""), percent("trainer waits", f.wait))
}

// outranks is the weight of groups that are played for nothing: once that is half
// of them it is what limits, whatever is slow at playing them.
func outranks(part float64) float64 {
	if part >= wastedMost {
		return 1 + reason
	}
	return part
}

func zeroVariance(f *facts) *finding {
	if !(f.zeroVariance >= wasted) {
		return nil
	}
	weight := f.zeroVariance / 10 // the trainer does not wait: it costs engines, not time
	if f.wait >= waits {
		weight = f.wait * outranks(f.zeroVariance)
	}
	return newFinding(ZeroVariance, weight, fmt.Sprintf("%.0f%% of the groups teach nothing, since all their rewards are equal: they are played and dropped.", 100*f.zeroVariance),
		"tasks that the policy sometimes solves: easier or harder ones (environment.params, dataset), larger groups (grouper.group_size), more variety (sampling.temperature)",
		percent("groups dropped for equal rewards", f.zeroVariance), figure("of the last groups", float64(f.v.Closed), ""), percent("trainer waits", f.wait))
}

func longTail(f *facts) *finding {
	used := f.used
	if math.IsNaN(used) {
		used = 0 // as far as is known
	}
	if f.wait < waits || !f.tailed() || used >= straggling || f.taken >= .9 {
		return nil
	}
	return newFinding(LongTail, f.wait*(1-used)+reason, fmt.Sprintf("A few slow episodes hold batches up: the slowest %.0f%% of the groups take %.1f times as long as half of them, and the trainer waits %.0f%% of its time.", 100*f.tailPart, f.tail, 100*f.wait),
		"play a few more slots than needed and take the first (grouper.oversample), bound the slow ones (environment.max_turns, sampling.max_new_tokens, grouper.slot_timeout), or grouper.max_staleness higher",
		figure(fmt.Sprintf("slowest %.0f%% of groups by half of them", 100*f.tailPart), f.tail, "times"), percent("what engines could compute, used", f.used), percent("slots taken", f.taken), percent("trainer waits", f.wait))
}

// tailed: the slowest groups are slower than the fewer that they are lets expect.
// Times that thin out evenly, as an exponential's do, are no tail.
func (f *facts) tailed() bool { return f.tail >= tailed*math.Log(f.tailPart)/math.Log(.05) }

func prefixCache(f *facts) *finding {
	hit, prompts := float64(f.v.CacheHit), float64(f.v.PromptTokens)/float64(f.v.SampledTokens)
	limits := f.busy >= busyEnough || math.IsNaN(f.busy) && f.generate >= mostly
	if f.wait < waits || !limits || !(hit < missed) || !(prompts >= longPrompts) {
		return nil
	}
	load := f.busy
	if math.IsNaN(load) {
		load = f.generate
	}
	return newFinding(PrefixCache, f.wait*load+reason, fmt.Sprintf("The engines compute prompts again: %.0f%% of the prompt tokens are in their cache, and there are %.0f of them for each that is sampled.", 100*hit, prompts),
		"room in the cache for every episode: engine.slots at least producer.episodes of all producers, more memory for an engine of your own; no oftener new weights than needed (trainer.sync_every)",
		percent("prompt tokens cached", hit), figure("prompt tokens for each sampled", prompts, ""), percent("engines busy", f.busy), percent("trainer waits", f.wait))
}

// smallBatches: the engines compute for fewer episodes at once than they could.
func smallBatches(f *facts) *finding {
	if f.wait < waits || f.env >= mostly || f.idle >= idlesMost || longTail(f) != nil {
		return nil
	}
	fill := float64(f.v.RowFill)
	switch {
	case f.busy >= busyEnough && fill < thin:
		return f.small(f.wait*f.busy+reason, fmt.Sprintf("The engines' batches are small: %.0f%% of their rows are in use, and the trainer waits %.0f%% of its time.", 100*fill, 100*f.wait))
	case f.starved():
		return f.small(f.wait*(1-f.busy), fmt.Sprintf("Too few episodes are played at once: every slot is taken, the engines compute %.0f%% of the time, and the trainer waits %.0f%% of its own.", 100*f.busy, 100*f.wait))
	}
	return nil
}

// starved: every slot is taken, and the engines have room for more.
func (f *facts) starved() bool {
	return f.taken >= .9 && f.busy < full && !(float64(f.v.RowFill) >= full)
}

// moreTasks is what to turn where slots are free.
const moreTasks = "more tasks at once: grouper.groups_per_batch, grouper.max_staleness or grouper.max_open_groups higher"

func (f *facts) small(weight float64, text string) *finding {
	knob := "more episodes at once: producer.episodes, or more producers (`headrace produce`)"
	if !(f.taken >= .9) {
		knob = moreTasks
	}
	return newFinding(SmallBatches, weight, text, knob, percent("rows of the engines' batches in use", float64(f.v.RowFill)), percent("engines busy", f.busy),
		percent("slots taken", f.taken), percent("trainer waits", f.wait))
}

// unclear: the trainer waits, and no rule knows what for.
func unclear(f *facts) board.Advice {
	return board.Advice{Code: Balanced, Text: fmt.Sprintf("The trainer waits %.0f%% of its time, and no one thing limits the run: engines compute %s of the time, episodes spend %s of theirs in the environment.",
		100*f.wait, say(f.busy), say(f.env)), Knob: "look at the queues and at a trace of the last minute (`headrace trace`)",
		Evidence: []board.Evidence{percent("trainer waits", f.wait), percent("engines busy", f.busy), percent("episodes wait for the environment", f.env)}}
}

func say(x float64) string {
	if math.IsNaN(x) {
		return "an unknown part"
	}
	return fmt.Sprintf("%.0f%%", 100*x)
}

func notEnough(v *board.View) board.Advice {
	s := v.State
	text := fmt.Sprintf("Not enough to go by: %d of the %d steps after which advice begins.", min(s.Step.Committed, fewestSteps), fewestSteps)
	switch {
	case s.Step.Committed >= fewestSteps && s.End == "":
		text = "Not enough to go by: the trainer has just started."
	case s.End != "":
		text = "The run has ended, and there is not enough to say what limited it."
	}
	return board.Advice{Code: NotEnoughData, Text: text, Knob: "wait", Evidence: []board.Evidence{figure("steps", float64(s.Step.Committed), "")}}
}

// stalled is the watchdog's sentence.
func stalled(s *board.State, stall *board.Stall) board.Advice {
	text := strings.TrimSpace(stall.Text)
	if text == "" {
		text = "the run stands still"
	}
	return board.Advice{Code: Stall, Text: "The run stands still: " + strings.TrimSuffix(text, ".") + ".", Knob: "docs/concepts.md has what to do about " + string(stall.Code),
		Evidence: []board.Evidence{figure("standing still", float64(s.Now-stall.Since), "s")}}
}
