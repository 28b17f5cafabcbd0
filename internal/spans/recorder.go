package spans

import (
	"sync"
	"sync/atomic"
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
	base           time.Time    // what times are relative to: it never jumps
	epoch          atomic.Int64 // Unix nanoseconds of base; moved when the machine slept
	silent         atomic.Bool
	draw           draw
	mu             sync.Mutex
	room           int
	rows, spare    []row
	taken          int64 // when rows were taken last
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
	r := &Recorder{role: role, instance: instance, base: time.Now(), room: room, rows: make([]row, 0, room+1), spare: make([]row, 0, room+1), ids: map[string]Name{}}
	r.epoch.Store(r.base.UnixNano())
	r.taken = r.Now()
	r.draw.init(room / budgetOf)
	return r
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

// Now is a span's time: Unix nanoseconds that go forward whatever is done to
// the machine's clock. A nil Recorder has the machine's.
func (r *Recorder) Now() int64 {
	if r == nil {
		return time.Now().UnixNano()
	}
	return r.epoch.Load() + int64(time.Since(r.base))
}

// mostDrift is how far the machine's clock may go away before it is followed: a
// machine that slept does not count the time.
const mostDrift = 100 * time.Millisecond

// follow keeps [Recorder.Now] near the machine's clock.
func (r *Recorder) follow(wall int64) {
	if drift := wall - r.Now(); time.Duration(drift).Abs() > mostDrift {
		r.epoch.Add(drift)
	}
}

// Record notes that something lasted from start to end, times of [Recorder.Now],
// on a lane (spans of one lane nest or follow each other). What belongs to an
// episode is recorded by its [Episode].
func (r *Recorder) Record(n Name, lane int32, start, end int64, args ...Arg) {
	if r == nil || r.silent.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(r.room, n, lane, start, end, 0, args)
}

// add copies a span into the buffer, if that has fewer than so many.
func (r *Recorder) add(most int, n Name, lane int32, start, end int64, flow uint64, args []Arg) bool {
	if len(r.rows) >= most {
		r.dropped++
		return false
	}
	r.rows = r.rows[:len(r.rows)+1]
	x := &r.rows[len(r.rows)-1]
	x.name, x.lane, x.start, x.duration, x.flow = n, lane, start, max(end-start, 0), flow
	x.n = copy(x.args[:], args)
	return true
}

// take is what was recorded since the last time, nil when there is nothing new.
// It is for one caller at a time.
func (r *Recorder) take(at int64) *subjects.SpanBatch {
	drawn, leftOut := r.draw.counts()
	sample, recorded, missing := r.Name(sampleSpan), r.Name("recorded"), r.Name("left_out")
	r.mu.Lock()
	if leftOut > 0 { // there is room for one more
		r.add(r.room+1, sample, 0, r.taken, at, 0, []Arg{{recorded, float64(drawn)}, {missing, float64(leftOut)}})
	}
	r.draw.adjust(at - r.taken)
	r.taken = at
	rows := r.rows
	r.rows, r.spare = r.spare[:0], rows
	names, dropped, offset := r.names, r.dropped, r.offset
	r.mu.Unlock()
	if len(rows) == 0 {
		return nil
	}
	b := &subjects.SpanBatch{V: subjects.SchemaVersion, Role: r.role, Instance: r.instance, At: at, Dropped: dropped,
		Offset: int64(offset.Ahead), Uncertainty: int64(offset.Uncertainty)}
	fill(b, rows, names)
	return b
}

// fill makes the rows the columns of a batch, as [subjects.SpanBatch.SetSpans]
// would, with no look at a name's text.
func fill(b *subjects.SpanBatch, rows []row, names []string) {
	places := make([]int32, len(names)) // in the batch, from 1
	place := func(n Name) int32 {
		if places[n] == 0 {
			b.Names = append(b.Names, names[n])
			places[n] = int32(len(b.Names)) //nolint:gosec // few
		}
		return places[n] - 1
	}
	b.Name, b.Lane = make([]int32, len(rows)), make([]int32, len(rows))
	b.Start, b.Duration, b.Flow = make([]int64, len(rows)), make([]int64, len(rows)), make([]uint64, len(rows))
	before, flows := b.At, false
	for i := range rows {
		x := &rows[i]
		b.Name[i], b.Lane[i], b.Start[i], b.Duration[i], b.Flow[i] = place(x.name), x.lane, x.start-before, x.duration, x.flow
		before, flows = x.start, flows || x.flow != 0
		for _, a := range x.args[:x.n] {
			b.Args = append(b.Args, subjects.RowArg{Row: int32(i), Key: place(a.Key), Value: a.Value}) //nolint:gosec // bounded by the buffer
		}
	}
	if !flows {
		b.Flow = nil
	}
}

// lose counts spans that were taken and could not be sent.
func (r *Recorder) lose(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped += uint64(n)
}
