package board

import "math"

// View is what an adviser looks at: the state and what was done lately, in the
// last minute or the last four steps, whichever is longer, up to a quarter of an hour. Of a
// run that has ended it is of the whole run, as far as TELEMETRY goes back.
type View struct {
	State *State
	// Doing are the parts of the trainer's time, the first step of each start left
	// out, which has to wait and to compile. Publish is all that it writes.
	Doing Times
	// Series are the points of that time; of a run that ended, of the ten minutes
	// before its last commit.
	Series *Series
	// Closed are the groups that closed for the last batches, ClosedZeroVariance
	// and ClosedStale those of them that were dropped.
	Closed, ClosedZeroVariance, ClosedStale int64
	// PromptTokens and SampledTokens are how many there were.
	PromptTokens, SampledTokens Number
	// CacheHit is the part of the prompt tokens that were cached, of all engines;
	// RowFill that of the rows of their device calls that were in use.
	CacheHit, RowFill Number
	// Busy is the mean of the engines' busy parts.
	Busy Number
	// Tail is how many times as long as half of the groups the slowest took, a
	// twentieth or one of two batches (TailPart of all), of those that the trainer's start did not hold up.
	Tail, TailPart Number
	// Taken is the part of the producers' slots with an episode in them.
	Taken Number
	// GenerateFraction and EnvFraction are parts of the time of all episodes.
	GenerateFraction, EnvFraction Number
}

const viewBatches = 20 // that what was closed lately is of

const (
	viewSteps   = 4   // that what is looked at is of, at least ...
	viewLongest = 800 // ... unless they take longer, seconds
)

// lookBack is how many seconds are looked at: the last minute or, where steps are
// long, the last of them: what is between two steps is no half of either.
func lookBack(step Number) float64 {
	return min(max(longSpan, viewSteps*step.Or(0)), viewLongest)
}

// view looks back.
func (b *Board) view(s *State, asOf float64) *View {
	span := lookBack(s.Trainer.StepSeconds)
	if running := asOf - b.trainer.firstAt; known(running) {
		span = min(span, max(running, 5)) // what was before is the start's
	}
	doing := b.trainer.lately(span, viewSteps, asOf)
	v := &View{State: s}
	window, closed := max(span, tailSeconds), b.groups.lately(viewBatches)
	series := b.series.columns(int(span))
	if s.End != "" {
		span, window, closed = math.Inf(1), math.Inf(1), b.groups.ever()
		doing = b.trainer.running()
		series = b.series.columns(fineSeconds)
		series = series.until(b.trainer.lastAt)
	}
	doing = doing.parts()
	v.Doing, v.Series = doing.times(), &series
	v.Closed, v.ClosedZeroVariance, v.ClosedStale = max(closed.all, 0), closed.zeroVariance, closed.stale
	tail, part := b.groups.tail(b.trainer.firstAt, window, b.groups.perBatch(viewBatches))
	v.Tail, v.TailPart = Number(tail), Number(part)
	b.viewEngines(v, asOf, span)
	b.viewEpisodes(v, asOf, span)
	return v
}

func (b *Board) viewEngines(v *View, asOf, span float64) {
	busy, _ := b.engines.mean(func(x *engine) float64 { return x.busy(asOf, span) })
	v.Busy = Number(busy)
	prompt, sampled, cached := b.engines.grown(enPrompt, asOf, span), b.engines.grown(enSampled, asOf, span), b.engines.grown(enCached, asOf, span)
	if !known(prompt) || !known(sampled) {
		prompt, sampled, cached = b.producers.grown(prPrompt, asOf, span), b.producers.grown(prSampled, asOf, span), b.producers.grown(prCached, asOf, span)
	}
	v.PromptTokens, v.SampledTokens = Number(prompt), Number(sampled)
	v.CacheHit = Number(fraction(cached / prompt))
	v.RowFill = Number(fraction(b.engines.grown(enRows, asOf, span) / b.engines.grown(enCapacity, asOf, span)))
}

func (b *Board) viewEpisodes(v *View, asOf, span float64) {
	if math.IsInf(span, 1) {
		asOf = math.Inf(-1) // those that are gone, too
	}
	all := b.producers.grown(prEpisodes, asOf, span)
	generate, env := b.producers.grown(prGenerate, asOf, span), b.producers.grown(prEnv, asOf, span)
	slots := b.producers.sum(asOf, func(x *producer) float64 { _, seconds := x.past.over(prEpisodes, asOf, span); return seconds * x.slots })
	v.Taken = Number(fraction(all / slots))
	all = max(all, generate+env)
	v.GenerateFraction, v.EnvFraction = Number(fraction(generate/all)), Number(fraction(env/all))
}

// grown is by how much a counter of all engines grew.
func (e *engines) grown(key int, asOf, span float64) float64 {
	_, sum := e.mean(func(x *engine) float64 { d, _ := x.past.over(key, asOf, span); return d })
	return sum
}

// grown is by how much a counter of all producers grew.
func (p *producers) grown(key int, asOf, span float64) float64 {
	return p.sum(asOf, func(x *producer) float64 { d, _ := x.past.over(key, asOf, span); return d })
}
