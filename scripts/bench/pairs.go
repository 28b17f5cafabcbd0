package main

import (
	"context"
	"time"
)

// pair is one run of a line with something and one without, in turn: what the
// machine does meanwhile is done to both.
type pair struct{ with, without outcome }

// pairs of a job, in the order with, without, without, with, ... after a run that
// is not counted: the first one of all is slower, whatever it is.
func (o *options) pairs(ctx context.Context, n int, with, without job) (all []pair, err error) {
	if o.volume < 0.1 {
		n = 1
	} else if _, err := o.headrace(ctx, without); err != nil {
		return nil, err
	}
	for i := range n {
		var p pair
		first, second := with, without
		if i%2 == 1 {
			first, second = without, with
		}
		a, err := o.headrace(ctx, first)
		if err != nil {
			return nil, err
		}
		b, err := o.headrace(ctx, second)
		if err != nil {
			return nil, err
		}
		if p = (pair{a, b}); i%2 == 1 {
			p = pair{b, a}
		}
		all = append(all, p)
	}
	return all, nil
}

// median of what a function says of each pair.
func median(all []pair, of func(pair) float64) float64 {
	var v []float64
	for _, p := range all {
		v = append(v, of(p))
	}
	return percentile(v, .5)
}

// telemetryPairs and watcherPairs are the pairs of a round.
const (
	telemetryPairs = 4
	watcherPairs   = 2
)

// telemetryOverhead is by how much the whole line is slower, and how much more CPU
// it takes, with all that the roles say of themselves than with none of it: spans,
// gauges, pages for Prometheus; in percent. The work is that of the throughput
// lines or some of it, seconds at least: much of this comes once a second.
func telemetryOverhead(length int, volume float64) func(context.Context, *options) ([]value, error) {
	return func(ctx context.Context, o *options) ([]value, error) {
		on := o.job(length, o.groups(length, volume), "1s")
		off := on
		on.Telemetry, off.Telemetry = telemetryOn, telemetryOff
		all, err := o.pairs(ctx, telemetryPairs, on, off)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			o.remark("on %s tokens/s, %.4f CPU s/Mtok (%s); off %s, %.4f (%s)", short(p.with.rate()), p.with.cpuPerMtok(), p.with.parts,
				short(p.without.rate()), p.without.cpuPerMtok(), p.without.parts)
		}
		return []value{
			{v: median(all, func(p pair) float64 { return 100 * (1 - p.with.rate()/p.without.rate()) })},
			{v: median(all, func(p pair) float64 { return 100 * (p.with.cpuPerMtok()/p.without.cpuPerMtok() - 1) })},
		}, nil
	}
}

// trains is how long the trainer of the watched line trains on a batch, in seconds.
const trains = 0.1

// watchersFigure is what a trainer notices of a tap, a replay and an export, each
// over and over at full speed: how many batches a second it trains on beside them
// and without them, and how long it waits for one on average. The producers are up
// to eight batches ahead, as tasks would hold them, so the trainer is what limits.
func watchersFigure(ctx context.Context, o *options) ([]value, error) {
	with := o.job(512, 8*max(6, int(60*min(1, o.volume))), "1s")
	with.Ahead, with.Work, with.Producers = 8, trains, 2
	without := with
	with.Watchers = len(watchers)
	all, err := o.pairs(ctx, watcherPairs, with, without)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		for _, w := range p.with.seen {
			o.remark("%s: %d trajectories, %d times from the start", w.Kind, w.Trajectories, w.Times)
		}
	}
	return []value{
		{v: median(all, func(p pair) float64 { return p.with.batchRate() / p.without.batchRate() })},
		{v: median(all, func(p pair) float64 { return p.with.waited() })},
		{v: median(all, func(p pair) float64 { return p.without.waited() })},
	}, nil
}

// batchRate is batches a second, from the first to the last.
func (x outcome) batchRate() float64 {
	t := x.taken.Times
	return float64(len(t)-1) / time.Duration(t[len(t)-1]-t[0]).Seconds()
}

// waited is the mean time from asking for a batch to its arrays, the first one's
// left out, in ms.
func (x outcome) waited() float64 {
	sum := 0.0
	for _, s := range x.taken.Took[1:] {
		sum += s
	}
	return 1e3 * sum / float64(len(x.taken.Took)-1)
}
