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
	// WaitSeconds and TrainSeconds are the trainer's, of the steps drawn.
	WaitSeconds  float64 `json:"wait_seconds"`
	TrainSeconds float64 `json:"train_seconds"`
	Packets      int64   `json:"packets"`
	Bytes        int64   `json:"bytes"`
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
	if err := r.read(ctx); err != nil {
		return nil, fmt.Errorf("trace %s: %w", run, err)
	}
	out := perfetto.NewWriter(w, 1)
	r.d.write(out, r.from)
	r.report.From, r.report.To = time.Unix(0, r.from).UTC(), time.Unix(0, r.to).UTC()
	r.report.Packets, r.report.Bytes = out.Written()
	if err := out.Flush(); err != nil {
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
	from, to int64 // the window, Unix nanoseconds
	wanted   map[uint64]bool
	clocks   map[source]int64 // what to add to a process's times
}

// source is a process of the run: a role and the name of one that plays it.
type source struct{ role, instance string }

func (r *reader) read(ctx context.Context) error {
	r.clocks, r.wanted = map[source]int64{}, map[uint64]bool{}
	for _, part := range []func(context.Context) error{r.window, r.telemetry, r.ledger, r.weights, r.rollouts} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sees reports whether some of [start, end) is in the window, or an instant is.
func (r *reader) sees(start, end int64) bool {
	return start <= r.to && (end > r.from || start >= r.from)
}
