package board

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/headrace/headrace/subjects"
)

// account is what the grouper says of its work.
type account struct {
	heard                         float64
	open, kept, inFlight, oldest  float64
	produced, trained, evalUnused float64
	dropped                       map[string]int64
	past                          *history
	held                          float64
}

const mostReasons = 64

func (a *account) report(g *subjects.Gauges, now float64) {
	if a.past == nil {
		a.past = newHistory(engineSamples*.8, "produced")
	}
	a.heard = now
	a.open, a.kept, a.inFlight = counter(g.Values, "open_groups"), counter(g.Values, "kept_groups"), counter(g.Values, "slots_in_flight")
	a.oldest, a.held = counter(g.Values, "oldest_group_seconds"), counter(g.Values, "held_trajectories")
	a.produced, a.trained, a.evalUnused = counter(g.Values, "produced"), counter(g.Values, "trained"), counter(g.Values, "evaluation_unused")
	a.dropped = map[string]int64{}
	for key, v := range g.Values {
		if reason, ok := strings.CutPrefix(key, "dropped_"); ok && v > 0 && len(reason) <= longestName && len(a.dropped) < mostReasons {
			a.dropped[reason] = whole(v)
		}
	}
	a.past.add(now, g.Values)
}

func (a *account) said() bool { return a.past != nil }

func (a *account) trajectories() Trajectories {
	t := Trajectories{Produced: whole(a.produced), Trained: whole(a.trained), Dropped: map[string]int64{}, EvaluationUnused: whole(a.evalUnused)}
	dropped := int64(0)
	for reason, n := range a.dropped {
		t.Dropped[reason] = n
		dropped += min(n, 1<<53)
	}
	t.Open = max(t.Produced-t.Trained-dropped, 0)
	return t
}

// bridge is what the bridge says of its work.
type bridge struct {
	heard                      float64
	trainers, ready, delivered float64
	past                       *history
}

func (b *bridge) report(g *subjects.Gauges, now float64) {
	if b.past == nil {
		b.past = newHistory(engineSamples*.8, "inspected_bytes_total")
	}
	b.heard = now
	b.trainers, b.ready, b.delivered = counter(g.Values, "trainers"), counter(g.Values, "batches_ready"), counter(g.Values, "delivered_step")
	if g.Values["trainers"] > 0 && math.IsNaN(b.ready) {
		b.ready = 0
	}
	b.past.add(now, g.Values)
}

// roles are the processes that were heard of.
type roles struct {
	byName map[[2]string]*role
}

type role struct {
	text  string
	heard float64
}

const mostRoles = 256

func newRoles() roles { return roles{byName: map[[2]string]*role{}} }

func (r *roles) heard(g *subjects.Gauges, now float64) {
	key := [2]string{g.Role, g.Instance}
	x := r.byName[key]
	if x == nil {
		if g.Role == "produce" && g.Text == "" { // they have a table of their own
			return
		}
		if len(r.byName) >= mostRoles {
			r.forget()
		}
		x = &role{}
		r.byName[key] = x
	}
	x.text, x.heard = clipText(g.Text), now
}

func (r *roles) forget() {
	var oldest [2]string
	first := true
	for key, x := range r.byName {
		if first || x.heard < r.byName[oldest].heard {
			oldest, first = key, false
		}
	}
	delete(r.byName, oldest)
}

func (r *roles) state(now float64) []Role {
	out := make([]Role, 0, len(r.byName))
	for key, x := range r.byName {
		out = append(out, Role{Role: key[0], Instance: key[1], Text: x.text, Heard: ago(now, x.heard)})
	}
	slices.SortFunc(out, func(a, b Role) int { return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Instance, b.Instance)) })
	return out
}
