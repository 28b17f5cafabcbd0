package otel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Options configure a tap.
type Options struct {
	Filter replay.Filter
	// Live follows the run from now on until it ends; otherwise what the filter
	// chooses of the log so far is told, once.
	Live bool
	// Content adds what was said. Default: not, it may be private.
	Content bool
	// Sample is the share of trajectories that are told, 0 to 1, chosen by their
	// ids: the same ones whoever tells. 0 means all.
	Sample float64
	// Endpoint of the collector, as in http://127.0.0.1:4318; /v1/traces is added
	// where it has no path.
	Endpoint string
	// Patience is how long a collector that does not answer is tried again.
	// Default a minute.
	Patience time.Duration
	// Version of the build.
	Version string
	// Progress, when set, is called every few seconds.
	Progress func(Report)
}

// Report says what was told.
type Report struct {
	Run          subjects.Run `json:"run"`
	Trajectories int          `json:"trajectories"`
	Spans        int          `json:"spans"`
	Requests     int          `json:"requests"`
	// Unreadable are trajectories that are not there any more or cannot be read,
	// Rejected spans that the collector would not have.
	Unreadable int `json:"unreadable,omitempty"`
	Rejected   int `json:"rejected,omitempty"`
	// Last is the last sequence of ROLLOUTS that is told: where to go on.
	Last uint64 `json:"last_sequence"`
	// End is why the run ended, of a live tap.
	End     string  `json:"end,omitempty"`
	Seconds float64 `json:"seconds"`
}

const (
	lookEvery     = 500 * time.Millisecond // for what is new
	progressEvery = 5 * time.Second
)

// Run tells what is chosen and returns what was told, also beside an error. A live
// tap ends without one when ctx does. It reads as any other tap: the run does not
// notice, and while a collector is slow or away only the tap waits.
func Run(ctx context.Context, c *bus.Conn, run subjects.Run, o Options) (Report, error) {
	began := time.Now()
	s, err := newSender(run, &o)
	if err != nil {
		return Report{Run: run}, err
	}
	defer s.close()
	if o.Live {
		err = live(ctx, c, run, o, s)
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = nil
		}
	} else {
		err = replay.Read(ctx, c, run, o.Filter, func(r *replay.Record) error { return s.tell(ctx, r) })
	}
	if err == nil {
		err = s.finish(ctx)
	}
	s.report.Seconds = time.Since(began).Seconds()
	if err != nil && s.report.Last > 0 {
		err = fmt.Errorf("%w (told up to sequence %d: go on with --seq %d..)", err, s.report.Last, s.report.Last+1)
	}
	return s.report, err
}

// errEnd ends a live tap whose run has ended.
var errEnd = errors.New("the run has ended")

// live reads again and again from where it was.
func live(ctx context.Context, c *bus.Conn, run subjects.Run, o Options, s *sender) error {
	state, err := bus.StreamState(ctx, c, run, subjects.Rollouts)
	if err != nil {
		return err
	}
	next := state.LastSeq + 1
	g, ctx := errgroup.WithContext(ctx)
	ended := make(chan string, 1)
	g.Go(func() error {
		why, err := bus.AwaitRunEnd(ctx, c, run)
		if err == nil {
			ended <- why
		}
		return nil // a run without a record has no end
	})
	g.Go(func() error {
		for last := false; ; {
			if next, err = s.read(ctx, c, run, o.Filter, next); err != nil {
				return err
			}
			if last {
				return errEnd
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case s.report.End = <-ended:
				last = true // and read what came before the end
			case <-time.After(lookEvery):
			}
		}
	})
	if err := g.Wait(); !errors.Is(err, errEnd) {
		return err
	}
	return nil
}

// read tells what there is from a sequence on, and returns the next one.
func (s *sender) read(ctx context.Context, c *bus.Conn, run subjects.Run, f replay.Filter, next uint64) (uint64, error) {
	state, err := bus.StreamState(ctx, c, run, subjects.Rollouts)
	if err != nil || state.LastSeq < next {
		return next, err
	}
	f.First, f.Last = next, state.LastSeq
	if err := replay.Read(ctx, c, run, f, func(r *replay.Record) error { return s.tell(ctx, r) }); err != nil {
		return next, err
	}
	return state.LastSeq + 1, s.flush(ctx)
}
