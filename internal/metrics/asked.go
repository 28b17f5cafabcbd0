package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// FromUI is the source of what `headrace ui` says of itself.
const FromUI = "ui"

// UIRoutes are what the requests of browsers are for; anything else is "other".
var UIRoutes = []string{"file", "runs", "run", "steps", "series", "events", "groups", "group", "trajectory", "deadletters", "trace", "version", other}

var uiFamilies = []Family{
	{Name: "headrace_ui_requests_total", Kind: Counter, From: FromUI, Label: "route", Values: named(UIRoutes...), Help: "Requests of browsers, by what they are for; those that were refused included."},
	{Name: "headrace_ui_requests_failed_total", Kind: Counter, From: FromUI, Help: "Requests that were answered with a status of 500 or more."},
	{Name: "headrace_ui_streams_open", Kind: Gauge, From: FromUI, Help: "Browsers that listen to a run's events."},
	{Name: "headrace_ui_runs_open", Kind: Gauge, From: FromUI, Help: "Runs that are open, each with a connection to its bus."},
	{Name: "headrace_ui_index_bytes", Kind: Gauge, From: FromUI, Help: "Bytes that the indexes of runs take, about."},
	{Name: "headrace_ui_index_trajectories", Kind: Gauge, From: FromUI, Help: "Trajectories that the indexes know."},
}

// Asked are the families of a source whose numbers are read when the page is
// asked for. Read gives them by family and label value ("" where there is no
// label); what is not in the table is left out. It may be called at any time.
type Asked struct {
	From string
	Read func() map[string]map[string]float64
}

// Describe implements prometheus.Collector.
func (a *Asked) Describe(out chan<- *prometheus.Desc) {
	for _, f := range among(a.From) {
		out <- f.desc()
	}
}

// Collect implements prometheus.Collector.
func (a *Asked) Collect(out chan<- prometheus.Metric) {
	values := a.Read()
	for _, f := range among(a.From) {
		for label, v := range values[f.Name] {
			switch {
			case f.Label == "" && label == "":
				out <- prometheus.MustNewConstMetric(f.desc(), f.valueType(), v)
			case slices.ContainsFunc(f.Values, func(x Value) bool { return x.Label == label }):
				out <- prometheus.MustNewConstMetric(f.desc(), f.valueType(), v, label)
			}
		}
	}
}
