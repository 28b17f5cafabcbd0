package board

// View is what an adviser looks at: the state, the last minutes, and what was
// closed and computed lately.
type View struct {
	State *State
	// Minute are the points of the last minute.
	Minute *Series
	// Closed are the groups that closed for the last batches, ClosedZeroVariance
	// and ClosedStale those of them that were dropped.
	Closed, ClosedZeroVariance, ClosedStale int64
	// PromptTokens and SampledTokens are a second's, of the last minute.
	PromptTokens, SampledTokens Number
	// CacheHit is the part of the prompt tokens of the last minute that were
	// cached, of all engines; RowFill that of the rows of their device calls that were in use.
	CacheHit, RowFill Number
	// Busy is the mean of the engines' busy parts of the last minute.
	Busy Number
	// Tail is how many times as long as half of the groups the slowest twentieth
	// took, of those that the trainer's start did not hold up.
	Tail Number
	// Taken is the part of the producers' slots with an episode in them, in the last minute.
	Taken Number
	// GenerateFraction and EnvFraction are the parts of the time of all episodes
	// of the last minute.
	GenerateFraction, EnvFraction Number
}

const viewBatches = 20 // that what was closed lately is of

func (b *Board) view(s *State, asOf float64) *View {
	minute := b.series.columns(minuteSeconds)
	closed := b.groups.lately(viewBatches)
	v := &View{State: s, Minute: &minute, Closed: max(closed.all, 0), ClosedZeroVariance: closed.zeroVariance, ClosedStale: closed.stale}
	busy, _ := b.engines.mean(func(x *engine) float64 { return x.busy(asOf, longSpan) })
	v.Busy = Number(busy)
	prompt, sampled := b.engines.grown(enPrompt, asOf), b.engines.grown(enSampled, asOf)
	cached := b.engines.grown(enCached, asOf)
	if !known(prompt) || !known(sampled) {
		prompt, sampled, cached = b.producers.grown(prPrompt, asOf), b.producers.grown(prSampled, asOf), b.producers.grown(prCached, asOf)
	}
	v.PromptTokens, v.SampledTokens = Number(prompt/longSpan), Number(sampled/longSpan)
	v.CacheHit = Number(fraction(cached / prompt))
	v.RowFill = Number(fraction(b.engines.grown(enRows, asOf) / b.engines.grown(enCapacity, asOf)))
	all := b.producers.grown(prEpisodes, asOf)
	generate, env := b.producers.grown(prGenerate, asOf), b.producers.grown(prEnv, asOf)
	v.Tail = Number(b.groups.tail(b.trainer.firstAt))
	v.Taken = Number(fraction(all / longSpan / b.producers.sum(asOf, func(x *producer) float64 { return x.slots })))
	all = max(all, generate+env)
	v.GenerateFraction, v.EnvFraction = Number(fraction(generate/all)), Number(fraction(env/all))
	return v
}

// grown is by how much a counter of all engines grew in the last minute.
func (e *engines) grown(key int, asOf float64) float64 {
	_, sum := e.mean(func(x *engine) float64 { d, _ := x.past.over(key, asOf, longSpan); return d })
	return sum
}

// grown is by how much a counter of all producers grew in the last minute.
func (p *producers) grown(key int, asOf float64) float64 {
	return p.sum(asOf, func(x *producer) float64 { d, _ := x.past.over(key, asOf, longSpan); return d })
}
