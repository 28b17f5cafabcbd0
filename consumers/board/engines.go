package board

import (
	"cmp"
	"math"
	"slices"

	"github.com/headrace/headrace/subjects"
)

// The counters of an engine that a board remembers.
const (
	enPrompt = iota
	enCached
	enSampled
	enSync
	enDevice
	enRows
	enCapacity
	enCalls
)

const (
	mostEngines   = 256
	shortSpan     = 10.0 // seconds that rates are of
	longSpan      = 60.0 // seconds that fractions are of
	engineSamples = 1.0  // seconds apart, a little less: reports jitter
)

// engines are those that registered, reported or answered.
type engines struct {
	byName map[string]*engine
	listed map[string]bool // in the registry now; nil: it was not read
}

type engine struct {
	record  subjects.EngineRecord
	version int64
	heard   float64
	now     map[string]float64
	past    *history
}

func newEngines() engines { return engines{byName: map[string]*engine{}} }

// of is the engine of a name; nil when there are too many.
func (e *engines) of(name string) *engine {
	x := e.byName[name]
	if x == nil && subjects.ValidToken(name) {
		if len(e.byName) >= mostEngines && !e.forget() {
			return nil
		}
		x = &engine{version: int64(subjects.NoVersion), heard: math.NaN(), now: map[string]float64{},
			past: newHistory(engineSamples*.8, "tokens_prompt", "tokens_cached", "tokens_sampled", "sync_seconds", "device_seconds", "device_rows", "device_row_capacity", "device_calls")}
		e.byName[name] = x
	}
	return x
}

// forget drops the engine that was heard of longest ago and is not registered.
func (e *engines) forget() bool {
	oldest := ""
	for name, x := range e.byName {
		if !e.listed[name] && (oldest == "" || !(x.heard >= e.byName[oldest].heard)) {
			oldest = name
		}
	}
	delete(e.byName, oldest)
	return oldest != ""
}

func (e *engines) registered(list []subjects.EngineRecord) {
	e.listed = map[string]bool{}
	for i := range list {
		r := list[i]
		if x := e.of(r.Engine); x != nil && len(e.listed) < mostEngines {
			r.URL = clipText(r.URL)
			x.record, x.version = r, int64(r.Version)
			e.listed[r.Engine] = true
		}
	}
}

// serves notes what an engine acknowledged; the registry knows better.
func (e *engines) serves(name string, version int64) {
	if x := e.of(name); x != nil && !e.listed[name] {
		x.version = version
	}
}

func (e *engines) report(g *subjects.Gauges, now, trained float64) {
	x := e.of(g.Instance)
	if x == nil {
		return
	}
	x.heard = now
	for _, key := range []string{"running", "waiting", "token_usage", "paused", "version"} {
		x.now[key] = counter(g.Values, key)
	}
	x.past.add(now, g.Values)
	x.past.count(now, trained)
	if v := x.now["version"]; !e.listed[g.Instance] && known(v) {
		x.version = whole(v)
	}
}

// busy is the part of the last span seconds that the engine's device computed,
// unknown for an engine that does not say.
func (x *engine) busy(now, span float64) float64 {
	return fraction(x.past.rate(enDevice, now, span))
}

func (x *engine) state(name string, now, asOf float64, listed bool) Engine {
	said := func(key string) Number {
		if v, ok := x.now[key]; ok && asOf-x.heard <= goneSeconds {
			return Number(v)
		}
		return Unknown()
	}
	return Engine{Name: name, URL: x.record.URL, Version: x.version, Ready: listed && x.record.Ready, Heard: ago(now, x.heard),
		Running: said("running"), Waiting: said("waiting"), TokenUsage: said("token_usage"),
		Busy: Number(x.busy(asOf, shortSpan)), PausedFraction: Number(fraction(x.past.rate(enSync, asOf, longSpan))),
		TokensPerSecond: Number(x.past.rate(enSampled, asOf, shortSpan)),
		CacheHit:        Number(fraction(x.past.ratio(enCached, enPrompt, asOf, longSpan))),
		RowFill:         Number(fraction(x.past.ratio(enRows, enCapacity, asOf, longSpan)))}
}

// goneSeconds without a report, and a process is not there.
const goneSeconds = 10

// ago is how many seconds before now something was.
func ago(now, at float64) Number { return Number(max(0, now-at)) }

func (e *engines) state(now, asOf float64) []Engine {
	out := make([]Engine, 0, len(e.byName))
	for name, x := range e.byName {
		out = append(out, x.state(name, now, asOf, e.listed[name]))
	}
	slices.SortFunc(out, func(a, b Engine) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// mean is that of what the engines say, of those that say it; sum their sum.
func (e *engines) mean(of func(*engine) float64) (mean, sum float64) {
	n := 0.0
	for _, x := range e.byName {
		if v := of(x); known(v) {
			n, sum = n+1, sum+v
		}
	}
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	return sum / n, sum
}
