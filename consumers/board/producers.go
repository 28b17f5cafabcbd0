package board

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// The counters of a producer that a board remembers.
const (
	prGenerate = iota
	prEnv
	prEpisodes // seconds of episodes that were live, counted here
	prSampled
	prPrompt
	prCached
	prPublished
	prFailed
)

const (
	mostProducers  = 2048
	shownProducers = 200
	sampleEvery    = 4.5 // seconds: thousands of producers
)

// producers are those that were heard of.
type producers struct {
	byName map[string]*producer
}

type producer struct {
	heard                          float64
	slots, live, held              float64
	waiting, waitingBytes, blocked float64
	past                           *history
	episodes                       float64 // seconds of live episodes
}

func newProducers() producers { return producers{byName: map[string]*producer{}} }

func (p *producers) of(name string) *producer {
	x := p.byName[name]
	if x == nil {
		if len(p.byName) >= mostProducers {
			p.forget()
		}
		x = &producer{heard: math.NaN(), past: newHistory(sampleEvery, "engine_wait_seconds", "env_wait_seconds", "", "tokens_sampled",
			"tokens_prompt", "tokens_cached", "published", "episodes_failed")}
		p.byName[name] = x
	}
	return x
}

// forget drops the eighth of the producers that were heard of longest ago.
func (p *producers) forget() {
	names := slices.SortedFunc(maps.Keys(p.byName), func(a, b string) int { return cmp.Compare(p.byName[a].heard, p.byName[b].heard) })
	for _, name := range names[:len(names)/8] {
		delete(p.byName, name)
	}
}

func (p *producers) report(g *subjects.Gauges, now, trained float64) {
	x := p.of(g.Instance)
	live := counter(g.Values, "episodes_live")
	if since := now - x.heard; since > 0 && since < goneSeconds && known(live) {
		x.episodes += min(since, goneSeconds) * live
	}
	x.heard, x.live = now, live
	x.slots, x.held = counter(g.Values, "slots"), counter(g.Values, "leases_held")
	x.waiting, x.waitingBytes = counter(g.Values, "publisher_waiting"), counter(g.Values, "publisher_bytes")
	x.blocked = counter(g.Values, "publisher_blocked")
	x.past.set(prEpisodes, x.episodes)
	x.past.add(now, g.Values)
	x.past.count(now, trained)
}

// shares are the parts of its episodes' time that were spent in engines and in
// the environment. A call counts when it ends: together they may be a little
// more than the time there was.
func (x *producer) shares(now float64) (generate, env float64) {
	all, _ := x.past.over(prEpisodes, now, longSpan)
	g, _ := x.past.over(prGenerate, now, longSpan)
	e, _ := x.past.over(prEnv, now, longSpan)
	all = max(all, g+e)
	return fraction(g / all), fraction(e / all)
}

func (x *producer) state(name string, now, asOf float64) Producer {
	g, e := x.shares(asOf)
	return Producer{Name: name, Heard: ago(now, x.heard), Slots: Number(x.slots), Live: Number(x.live), Held: Number(x.held),
		Published: Number(x.past.last[prPublished]), Failed: Number(x.past.last[prFailed]),
		GenerateFraction: Number(g), EnvFraction: Number(e), Blocked: x.blocked > 0}
}

func (p *producers) state(now, asOf float64) []Producer {
	out := make([]Producer, 0, len(p.byName))
	for name, x := range p.byName {
		out = append(out, x.state(name, now, asOf))
	}
	slices.SortFunc(out, func(a, b Producer) int {
		return cmp.Or(cmp.Compare(a.Heard.Or(0), b.Heard.Or(0)), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), shownProducers)]
}

// sum adds up what the producers say that are there.
func (p *producers) sum(asOf float64, of func(*producer) float64) float64 {
	sum, any := 0.0, false
	for _, x := range p.byName {
		if v := of(x); asOf-x.heard <= goneSeconds && known(v) {
			sum, any = sum+v, true
		}
	}
	if !any {
		return math.NaN()
	}
	return sum
}
