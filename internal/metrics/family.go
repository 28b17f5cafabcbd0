package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is the type of a family.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Merge says how the numbers of several instances of a role become one.
type Merge int

// The ways: a sum (counters survive the restart of an instance), or the largest
// or smallest of them (of what every instance says of the run, not of itself).
const (
	Sum Merge = iota
	Highest
	Lowest
)

// Where a family's numbers come from, if from no role's gauges.
const (
	FromLog     = "log"     // ledger, trainer's events, headers of rollouts
	FromBodies  = "bodies"  // trajectories, as many as a budget allows
	FromStreams = "streams" // what the server says of the run's streams
	FromProcess = "process" // the process that serves the page
	FromSpans   = "spans"   // what the trainer says it did
)

// Family is one metric: a row of the table in docs/metrics.md.
type Family struct {
	Name string
	Kind Kind
	Help string
	// From is a role of subjects.Gauges, or one of the sources above.
	From string
	// Label is the name of its label, empty without one. Two are separated by a comma.
	Label string
	// Values are the label's values and the gauge each is; without a label there
	// is one, of value "".
	Values []Value
	// Prefix, of a role's gauges, stands before the label's value in the gauge's
	// name; values that are not listed are counted as "other".
	Prefix string
	Merge  Merge
	// Buckets of a histogram.
	Buckets []float64
}

// Value is one label value and where it is read.
type Value struct{ Label, Gauge string }

// one is the value of a family without a label.
func one(gauge string) []Value { return []Value{{"", gauge}} }

// plain are label values that are spelled as their gauges, after a prefix.
func plain(prefix string, values ...string) []Value {
	out := make([]Value, len(values))
	for i, v := range values {
		out[i] = Value{v, prefix + v}
	}
	return out
}

const other = "other"

func (f *Family) labels() []string {
	switch f.Label {
	case "":
		return nil
	case "environment,status":
		return []string{"environment", "status"}
	}
	return []string{f.Label}
}

func (f *Family) desc() *prometheus.Desc {
	return prometheus.NewDesc(f.Name, f.Help, f.labels(), nil)
}

func (f *Family) valueType() prometheus.ValueType {
	if f.Kind == Counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// reported tells a role's gauges from what is read elsewhere.
func (f *Family) reported() bool {
	return !slices.Contains([]string{FromLog, FromBodies, FromStreams, FromProcess, FromSpans, FromUI}, f.From)
}

// Families is the table.
func Families() []Family {
	return slices.Concat(producerFamilies, grouperFamilies, bridgeFamilies, engineFamilies, logFamilies, bodyFamilies, streamFamilies, uiFamilies, processFamilies)
}

// among are the families of a source.
func among(from string) (out []Family) {
	for _, f := range Families() {
		if f.From == from {
			out = append(out, f)
		}
	}
	return out
}
