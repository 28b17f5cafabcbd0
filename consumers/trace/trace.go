package trace

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/headrace/headrace/consumers/perfetto"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Options choose the window; with none of them it is the last [DefaultLast].
type Options struct {
	// Last is how much of the run's end to draw.
	Last time.Duration
	// First and Final are the steps to draw, both included, with everything from
	// the opening of the first group that is trained in them on.
	First, Final subjects.Step
	// MaxTrajectories bounds how many are drawn; the rest is counted. Default 200000.
	MaxTrajectories int
	// Progress, if set, hears what is read and how many messages were, now and then.
	Progress func(what string, messages int)
	// JAX are profiles of the trainer to merge: folders or files, see [MergeJAX].
	// With none of them it is those of the folder Profiles, if set, that overlap the window.
	JAX      []string
	Profiles string
}

// DefaultLast is the window when nobody names one.
const DefaultLast = time.Minute

const defaultTrajectories = 200_000

// Report says what was drawn.
type Report struct {
	Run  string    `json:"run"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Trajectories drawn, of them LeftOut beyond the bound are not, and Unread are
	// purged or malformed.
	Trajectories int `json:"trajectories"`
	LeftOut      int `json:"left_out,omitempty"`
	Unread       int `json:"unread,omitempty"`
	Groups       int `json:"groups"`
	Steps        int `json:"steps"`
	Syncs        int `json:"weight_syncs"`
	Samples      int `json:"counter_samples"`
	Spans        int `json:"spans"`
	// Dropped counts the spans that processes had no room for, since they started.
	Dropped uint64 `json:"spans_dropped,omitempty"`
	// Sample tells of episodes whose spans producers left out in the window; nil: of none.
	Sample *Sample `json:"sample,omitempty"`
	// Read counts the messages that were read for it.
	Read int `json:"messages_read"`
	// Skew is how uncertain the alignment of the clocks is: that of the process
	// where it is worst, in seconds.
	Skew float64 `json:"clock_uncertainty_seconds"`
	// WaitSeconds and TrainSeconds are the trainer's, of what is drawn of it.
	WaitSeconds  float64 `json:"wait_seconds"`
	TrainSeconds float64 `json:"train_seconds"`
	Packets      int64   `json:"packets"`
	Bytes        int64   `json:"bytes"`
	// Until is up to when it was looked for episodes that began in the window, if
	// the run has some of later.
	Until time.Time `json:"looked_until,omitzero"`
	// JAX is what was merged of JAX profiles.
	JAX *JAXReport `json:"jax,omitempty"`
}

// Write draws a window of a run, live or ended, to w. The error is the bus's,
// w's, or that the run has no such window.
func Write(ctx context.Context, conn *bus.Conn, run subjects.Run, o Options, w io.Writer) (*Report, error) {
	if err := run.Validate(); err != nil {
		return nil, err
	}
	if o.MaxTrajectories <= 0 {
		o.MaxTrajectories = defaultTrajectories
	}
	r := &reader{conn: conn, run: run, o: o, report: &Report{Run: string(run)}, d: newDrawing()}
	if err := r.all(ctx); err != nil {
		return nil, fmt.Errorf("trace %s: %w", run, err)
	}
	out := perfetto.NewWriter(w, 1)
	r.d.write(out, r.from)
	r.report.From, r.report.To = time.Unix(0, r.from).UTC(), time.Unix(0, r.to).UTC()
	r.report.Packets, r.report.Bytes = out.Written()
	err := out.Flush()
	if err == nil {
		err = r.jax(w)
	}
	if err != nil {
		return nil, fmt.Errorf("trace %s: %w", run, err)
	}
	return r.report, nil
}

// reader collects what the window has.
type reader struct {
	conn     *bus.Conn
	run      subjects.Run
	o        Options
	report   *Report
	d        *drawing
	from, to int64  // the window, Unix nanoseconds
	copied   bool   // the log is a copy: when its messages were stored says nothing
	stage    string // what is read, for Progress
	book     book
	wanted   map[uint64]int   // messages of ROLLOUTS, and how many trajectories they hold
	clocks   map[source]clock // of processes that said
	told     told             // spans that belong to something else that is drawn

	waited, trained int64 // of the trainer, nanoseconds
}

// clock is what to add to a process's times, and how wrong that may be.
type clock struct{ ahead, uncertain int64 }

// source is a process of the run: a role and the name of one that plays it.
type source struct{ role, instance string }

func (r *reader) all(ctx context.Context) error {
	r.clocks, r.wanted, r.told = map[source]clock{}, map[uint64]int{}, newTold()
	r.book.reader = r
	for _, part := range []struct {
		stage string
		read  func(context.Context) error
	}{{"ledger", r.window}, {"telemetry", r.telemetry}, {"ledger", r.ledger}, {"weights", r.weights}, {"rollouts", r.rollouts}} {
		r.stage = part.stage
		if err := part.read(ctx); err != nil {
			return err
		}
	}
	r.rest()
	return nil
}

// longest is how long something may have taken: a month. Beyond, somebody made
// its times up, and drawing it would make a line of everything else.
const longest = int64(30 * 24 * time.Hour)

// sees reports whether some of [start, end) is in the window, or an instant is.
func (r *reader) sees(start, end int64) bool {
	return start <= r.to && (end > r.from || start >= r.from) && start >= r.from-longest && end <= r.to+longest
}
