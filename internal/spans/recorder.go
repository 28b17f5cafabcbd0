package spans

import (
	"sync"
	"time"

	"github.com/headrace/headrace/subjects"
)

// Name is a name that a [Recorder] knows.
type Name int32

// Arg is a number that belongs to a span.
type Arg struct {
	Key   Name
	Value float64
}

// maxArgs is how many arguments a span may have; further ones are left out.
const maxArgs = 3

// DefaultSpans is how many spans there is room for between two reports: about
// 3 MB, and a message of at most 700 KB.
const DefaultSpans = 16 << 10

// row is a span in the buffer.
type row struct {
	start, duration int64
	flow            uint64
	name            Name
	lane            int32
	args            [maxArgs]Arg
	n               int // arguments
}

// Recorder holds the spans of a process until they are sent. It is safe for
// concurrent use. A nil Recorder records nothing.
type Recorder struct {
	role, instance string
	base           time.Time // what times are relative to: it never jumps
	mu             sync.Mutex
	rows, spare    []row
	dropped        uint64
	names          []string
	ids            map[string]Name
	offset         Offset
}

// New returns a recorder for one instance of a role with room for so many spans
// between two reports; 0: [DefaultSpans].
func New(role, instance string, room int) *Recorder {
	if room <= 0 {
		room = DefaultSpans
	}
	return &Recorder{role: role, instance: instance, base: time.Now(), rows: make([]row, 0, room), spare: make([]row, 0, room), ids: map[string]Name{}}
}

// Name makes a name known, once for many spans.
func (r *Recorder) Name(text string) Name {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.ids[text]
	if !ok {
		n = Name(len(r.names))
		r.ids[text], r.names = n, append(r.names, text)
	}
	return n
}

// Now is a span's time: Unix nanoseconds that only go forward.
func (r *Recorder) Now() int64 {
	if r == nil {
		return 0
	}
	return r.base.UnixNano() + int64(time.Since(r.base))
}

// Record notes that something lasted from start to end, times of [Recorder.Now],
// on a lane (spans of one lane nest or follow each other). Flow is a trajectory's
// subjects.FlowID, or 0.
func (r *Recorder) Record(n Name, lane int32, start, end int64, flow uint64, args ...Arg) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) == cap(r.rows) {
		r.dropped++
		return
	}
	r.rows = r.rows[:len(r.rows)+1]
	x := &r.rows[len(r.rows)-1]
	x.name, x.lane, x.start, x.duration, x.flow = n, lane, start, max(end-start, 0), flow
	x.n = copy(x.args[:], args)
}

// take is what was recorded since the last time, nil when there is nothing new.
// It is for one caller at a time.
func (r *Recorder) take(at int64) *subjects.SpanBatch {
	r.mu.Lock()
	rows := r.rows
	r.rows, r.spare = r.spare[:0], rows
	names, dropped, offset := r.names, r.dropped, r.offset
	r.mu.Unlock()
	if len(rows) == 0 {
		return nil
	}
	spans := make([]subjects.TimeSpan, len(rows))
	for i := range rows {
		x := &rows[i]
		spans[i] = subjects.TimeSpan{Name: names[x.name], Lane: x.lane, Start: x.start, Duration: x.duration, Flow: x.flow}
		for _, a := range x.args[:x.n] {
			spans[i].Args = append(spans[i].Args, subjects.TimeSpanArg{Key: names[a.Key], Value: a.Value})
		}
	}
	b := &subjects.SpanBatch{V: subjects.SchemaVersion, Role: r.role, Instance: r.instance, At: at, Dropped: dropped,
		Offset: int64(offset.Ahead), Uncertainty: int64(offset.Uncertainty)}
	b.SetSpans(spans)
	return b
}

// lose counts spans that were taken and could not be sent.
func (r *Recorder) lose(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped += uint64(n)
}
