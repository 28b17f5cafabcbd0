package metrics

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headrace/headrace/subjects"
)

const (
	maxInstances = 16 << 10         // whose last report is kept
	liveFor      = 10 * time.Second // that a report says how things are now
	exact        = 1 << 53          // counts above it are not believed
)

// Reports folds what instances of roles say of themselves into the table's
// numbers. Counters only grow, whatever an instance says and however often it
// starts again; gauges are of the instances heard of in the last ten seconds.
// It is safe for concurrent use.
type Reports struct {
	mu        sync.Mutex
	series    []series
	roles     map[string]*role
	instances map[source]*instance
	read      uint64
	ignored   uint64
	now       func() time.Time
}

// series is one line of the page.
type series struct {
	family *Family
	desc   *prometheus.Desc
	label  string
	total  float64 // of a counter
	seen   bool    // that anybody said it, or may
}

// role is which gauges of a role make which series.
type role struct {
	series   map[string]int
	prefixes []prefix
	heard    bool
}

type prefix struct {
	text  string
	other int // series of what is not listed
}

type source struct{ role, instance string }

// instance is the last report of one instance.
type instance struct {
	at     time.Time
	values map[int]float64 // by series
}

// NewReports is a fold that nobody has reported to.
func NewReports() *Reports {
	r := &Reports{roles: map[string]*role{}, instances: map[source]*instance{}, now: time.Now}
	families := Families()
	for i := range families {
		if f := &families[i]; f.reported() {
			r.add(f)
		}
	}
	return r
}

func (r *Reports) add(f *Family) {
	ro := r.roles[f.From]
	if ro == nil {
		ro = &role{series: map[string]int{}}
		r.roles[f.From] = ro
	}
	desc := f.desc()
	for _, v := range f.Values {
		ro.series[v.Gauge] = len(r.series)
		r.series = append(r.series, series{family: f, desc: desc, label: v.Label})
	}
	if f.Prefix != "" {
		ro.prefixes = append(ro.prefixes, prefix{f.Prefix, len(r.series)})
		r.series = append(r.series, series{family: f, desc: desc, label: other})
	}
}

// find is the series of a gauge, -1 for none.
func (ro *role) find(gauge string) int {
	if i, ok := ro.series[gauge]; ok {
		return i
	}
	for _, p := range ro.prefixes {
		if strings.HasPrefix(gauge, p.text) {
			return p.other
		}
	}
	return -1
}

// Report folds one report in.
func (r *Reports) Report(g *subjects.Gauges) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ro := r.roles[g.Role]
	if ro == nil {
		return
	}
	key := source{g.Role, g.Instance}
	in := r.instances[key]
	if in == nil {
		if len(r.instances) >= maxInstances {
			r.ignored++
			return
		}
		in = &instance{values: make(map[int]float64, len(g.Values))}
		r.instances[key] = in
	}
	r.read++
	ro.heard, in.at = true, r.now()
	r.fold(ro, in, g.Values)
}

func (r *Reports) fold(ro *role, in *instance, values map[string]float64) {
	now := make(map[int]float64, len(values))
	for gauge, v := range values {
		if i := ro.find(gauge); i >= 0 && believable(r.series[i].family, v) {
			now[i] += v // several may be "other"
		}
	}
	for i, v := range now {
		s := &r.series[i]
		s.seen = true
		switch {
		case s.family.Kind != Counter:
		case s.family.Merge == Highest:
			s.total = max(s.total, v)
		case v < in.values[i]: // it started again
			s.total += v
		default:
			s.total += v - in.values[i]
		}
	}
	for i, v := range in.values { // what it does not say this time it said before
		if _, again := now[i]; !again && r.series[i].family.Kind == Counter {
			now[i] = v
		}
	}
	in.values = now
}

// believable leaves out what would spoil a sum for ever.
func believable(f *Family, v float64) bool {
	if math.IsNaN(v) || math.Abs(v) > exact {
		return false
	}
	return f.Kind != Counter || v >= 0
}

// ignore counts a report that could not be read.
func (r *Reports) ignore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ignored++
}

// Describe implements prometheus.Collector.
func (r *Reports) Describe(out chan<- *prometheus.Desc) {
	var last *Family
	for i := range r.series {
		if s := &r.series[i]; s.family != last {
			last = s.family
			out <- s.desc
		}
	}
}

// Collect implements prometheus.Collector: of roles that were heard of, every
// counter, and the gauges that a live instance says.
func (r *Reports) Collect(out chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gauges := r.gauges()
	for i := range r.series {
		s := &r.series[i]
		v, ok := s.total, r.roles[s.family.From].heard && (s.seen || s.label != other)
		if s.family.Kind != Counter {
			v, ok = gauges[i].value, gauges[i].said
		}
		if !ok {
			continue
		}
		if s.label == "" {
			out <- prometheus.MustNewConstMetric(s.desc, s.family.valueType(), v)
		} else {
			out <- prometheus.MustNewConstMetric(s.desc, s.family.valueType(), v, s.label)
		}
	}
}

type merged struct {
	value float64
	said  bool
}

// gauges merges what the live instances say.
func (r *Reports) gauges() []merged {
	out := make([]merged, len(r.series))
	now := r.now()
	for _, in := range r.instances {
		if now.Sub(in.at) > liveFor {
			continue
		}
		for i, v := range in.values {
			if r.series[i].family.Kind != Counter {
				out[i].add(r.series[i].family.Merge, v)
			}
		}
	}
	return out
}

func (m *merged) add(how Merge, v float64) {
	switch {
	case !m.said:
		m.value = v
	case how == Highest:
		m.value = max(m.value, v)
	case how == Lowest:
		m.value = min(m.value, v)
	default:
		m.value += v
	}
	m.said = true
}

// counts are how many reports were read and ignored.
func (r *Reports) counts() (read, ignored uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read, r.ignored
}
