package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// vectors are the families of a source that are counted here, by name.
type vectors struct {
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec
}

func newVectors(from ...string) *vectors {
	v := &vectors{map[string]*prometheus.CounterVec{}, map[string]*prometheus.GaugeVec{}, map[string]*prometheus.HistogramVec{}}
	for _, source := range from {
		for _, f := range among(source) {
			v.add(&f)
		}
	}
	return v
}

// add makes a family. Series that are sure to come are there from the start, so
// that a rate has something to start from; gauges come when they are known.
func (v *vectors) add(f *Family) {
	switch f.Kind {
	case Counter:
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help}, f.labels())
		v.counters[f.Name] = c
		f.each(func(l ...string) { c.WithLabelValues(l...) })
	case Gauge:
		v.gauges[f.Name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.Name, Help: f.Help}, f.labels())
	case Histogram:
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.Name, Help: f.Help, Buckets: f.Buckets}, f.labels())
		v.histograms[f.Name] = h
		f.each(func(l ...string) { h.WithLabelValues(l...) })
	default:
		panic(fmt.Sprintf("family %s is a %s", f.Name, f.Kind))
	}
}

// each calls fn with the label values that a family is sure to have.
func (f *Family) each(fn func(...string)) {
	if f.Label == "" {
		fn()
		return
	}
	for _, x := range f.Values {
		fn(x.Label)
	}
}

func (v *vectors) count(name string, n float64, labels ...string) {
	if n > 0 && n <= exact {
		v.counters[name].WithLabelValues(labels...).Add(n)
	}
}

func (v *vectors) set(name string, x float64, labels ...string) {
	v.gauges[name].WithLabelValues(labels...).Set(x)
}

func (v *vectors) observe(name string, x float64, labels ...string) {
	if x >= 0 && x <= exact {
		v.histograms[name].WithLabelValues(labels...).Observe(x)
	}
}

// Describe implements prometheus.Collector.
func (v *vectors) Describe(out chan<- *prometheus.Desc) {
	v.each(func(c prometheus.Collector) { c.Describe(out) })
}

// Collect implements prometheus.Collector.
func (v *vectors) Collect(out chan<- prometheus.Metric) {
	v.each(func(c prometheus.Collector) { c.Collect(out) })
}

func (v *vectors) each(fn func(prometheus.Collector)) {
	for _, c := range v.counters {
		fn(c)
	}
	for _, g := range v.gauges {
		fn(g)
	}
	for _, h := range v.histograms {
		fn(h)
	}
}
