package subjects

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// TimeSpan is something that a process did for a while.
type TimeSpan struct {
	Name string
	// Lane is the line it is drawn on, from 0: spans of one lane nest or follow
	// each other.
	Lane int32
	// Start is Unix nanoseconds on the process's clock, Duration nanoseconds.
	Start, Duration int64
	// Flow ties it to others, as [FlowID] names a trajectory; 0: to none.
	Flow uint64
	Args []TimeSpanArg
}

// TimeSpanArg is a number that belongs to a span.
type TimeSpanArg struct {
	Key   string
	Value float64
}

// SpanBatch is what a process did since its last report, about a second, as
// columns: a span is a row, its name and its arguments' keys are places in Names.
type SpanBatch struct {
	V        int    `msgpack:"v" json:"v"`
	Role     string `msgpack:"role" json:"role"`
	Instance string `msgpack:"inst" json:"instance"`
	At       int64  `msgpack:"at" json:"at"`
	// Offset is what to add to the process's times to get the server's, and
	// Uncertainty by how much it may be wrong, nanoseconds; both 0: not measured.
	Offset      int64 `msgpack:"off,omitempty" json:"offset,omitempty"`
	Uncertainty int64 `msgpack:"unc,omitempty" json:"uncertainty,omitempty"`
	// Dropped counts the spans since the process started that there was no room for.
	Dropped uint64   `msgpack:"drop,omitempty" json:"dropped,omitempty"`
	Names   []string `msgpack:"names,omitempty" json:"names,omitempty"`
	Name    []int32  `msgpack:"n,omitempty" json:"name,omitempty"`
	Lane    []int32  `msgpack:"l,omitempty" json:"lane,omitempty"`
	// Start is relative to the row before, the first one's to At.
	Start    []int64  `msgpack:"t,omitempty" json:"start,omitempty"`
	Duration []int64  `msgpack:"d,omitempty" json:"duration,omitempty"`
	Flow     []uint64 `msgpack:"f,omitempty" json:"flow,omitempty"` // none at all when all are 0
	Args     []RowArg `msgpack:"args,omitempty" json:"args,omitempty"`
}

// RowArg is an argument of the span in row Row.
type RowArg struct {
	Row   int32   `msgpack:"i" json:"row"`
	Key   int32   `msgpack:"k" json:"key"`
	Value float64 `msgpack:"x" json:"value"`
}

// SetSpans makes the rows of a batch; At must be set.
func (b *SpanBatch) SetSpans(spans []TimeSpan) {
	ids := map[string]int32{}
	b.Names, b.Name, b.Lane, b.Start, b.Duration, b.Flow, b.Args = nil, nil, nil, nil, nil, nil, nil
	id := func(name string) int32 {
		n, ok := ids[name]
		if !ok {
			n = int32(len(b.Names))
			ids[name], b.Names = n, append(b.Names, name)
		}
		return n
	}
	before, flows := b.At, false
	for i := range spans {
		s := &spans[i]
		b.Name, b.Lane = append(b.Name, id(s.Name)), append(b.Lane, s.Lane)
		b.Start, b.Duration = append(b.Start, s.Start-before), append(b.Duration, s.Duration)
		b.Flow, flows = append(b.Flow, s.Flow), flows || s.Flow != 0
		before = s.Start
		for _, a := range s.Args {
			b.Args = append(b.Args, RowArg{int32(i), id(a.Key), a.Value})
		}
	}
	if !flows {
		b.Flow = nil
	}
}

// Spans are the rows of a batch. A batch whose columns do not fit together is
// refused.
func (b *SpanBatch) Spans() ([]TimeSpan, error) {
	n := len(b.Name)
	if len(b.Lane) != n || len(b.Start) != n || len(b.Duration) != n || len(b.Flow) != n && len(b.Flow) != 0 {
		return nil, fmt.Errorf("spans: columns of unequal length")
	}
	out := make([]TimeSpan, n)
	at := b.At
	for i := range out {
		at += b.Start[i]
		if b.Lane[i] < 0 || b.Duration[i] < 0 || at < 0 || at > math.MaxInt64-b.Duration[i] {
			return nil, fmt.Errorf("span %d: lane %d, start %d, duration %d", i, b.Lane[i], at, b.Duration[i])
		}
		name, err := b.text(b.Name[i])
		if err != nil {
			return nil, fmt.Errorf("span %d: %w", i, err)
		}
		out[i] = TimeSpan{Name: name, Lane: b.Lane[i], Start: at, Duration: b.Duration[i]}
		if len(b.Flow) > 0 {
			out[i].Flow = b.Flow[i]
		}
	}
	for i, a := range b.Args {
		key, err := b.text(a.Key)
		if err != nil || a.Row < 0 || int(a.Row) >= n {
			return nil, fmt.Errorf("argument %d: row %d of %d, key %d of %d", i, a.Row, n, a.Key, len(b.Names))
		}
		out[a.Row].Args = append(out[a.Row].Args, TimeSpanArg{key, a.Value})
	}
	return out, nil
}

func (b *SpanBatch) text(id int32) (string, error) {
	if id < 0 || int(id) >= len(b.Names) {
		return "", fmt.Errorf("name %d of %d", id, len(b.Names))
	}
	return b.Names[id], nil
}

const spansToken = ".spans"

// SpanSubject is where one instance of a role reports its spans.
func (r Run) SpanSubject(role, instance string) string {
	return r.TelemetrySubject(role, instance) + spansToken
}

// IsSpans reports whether a subject of TELEMETRY is a [Run.SpanSubject]: its
// messages are no gauges.
func IsSpans(subject string) bool { return strings.HasSuffix(subject, spansToken) }

// FlowID is the number of a trajectory's flow through a trace: FNV-1a, 64 bits,
// of its id, and 1 should that be 0.
func FlowID(g GroupID, s Slot, a Attempt) uint64 {
	var few [96]byte // on the stack
	id := strconv.AppendInt(append(append(few[:0], g...), '/'), int64(s), 10)
	id = strconv.AppendInt(append(id, '/'), int64(a), 10)
	h := uint64(14695981039346656037)
	for _, c := range id {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return max(h, 1)
}
