package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// ErrLive says that what is to be done to a run must not be done while it is played.
var ErrLive = errors.New("the run is live")

// StreamSize is what one stream of a run takes.
type StreamSize struct {
	Stream   string  `json:"stream"`
	Messages uint64  `json:"messages"`
	Bytes    uint64  `json:"bytes"`
	Limit    int64   `json:"limit"` // 0: none
	Full     float64 `json:"full"`  // part of the limit
}

// RunSize is what a run takes.
type RunSize struct {
	Run     string       `json:"run"`
	Streams []StreamSize `json:"streams,omitempty"`
	Bytes   uint64       `json:"bytes"` // of all streams
	// Purged: ROLLOUTS below it has been purged.
	Purged uint64 `json:"purged,omitempty"`
	// Rate is how fast ROLLOUTS grew over its newest messages, bytes a second; 0
	// when nothing came for a minute. FullIn is when it is full at that rate,
	// seconds; 0: not soon.
	Rate   float64 `json:"rate"`
	FullIn float64 `json:"full_in_seconds,omitempty"`
	// Folder is what the run's folder takes on this machine, by its parts: store,
	// weights, checkpoints, logs and the rest. Free is what its disk has left.
	Folder map[string]int64 `json:"folder,omitempty"`
	Free   int64            `json:"free,omitempty"`
}

// Size says what a run takes, on the bus and on disk.
func Size(ctx context.Context, s Source, run subjects.Run) (*RunSize, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	out := &RunSize{Run: string(run)}
	if err := out.streams(ctx, conn, run); err != nil {
		return nil, err
	}
	if out.Purged, err = bus.Purged(ctx, conn, run); err != nil {
		return nil, err
	}
	if !s.Remote {
		return out, out.folder(runDir(filepath.Join(s.Root, string(run))))
	}
	return out, nil
}

func (r *RunSize) streams(ctx context.Context, conn *bus.Conn, run subjects.Run) error {
	for _, s := range subjects.Streams() {
		config, state, err := bus.StreamLimits(ctx, conn, run, s)
		if errors.Is(err, bus.ErrNoStream) {
			return fmt.Errorf("no run %s on this bus: `headrace runs` lists what there is", run)
		}
		if err != nil {
			return err
		}
		size := StreamSize{Stream: string(s), Messages: state.Msgs, Bytes: state.Bytes, Limit: max(0, config.MaxBytes)}
		if size.Limit > 0 {
			size.Full = float64(size.Bytes) / float64(size.Limit)
		}
		r.Streams = append(r.Streams, size)
		r.Bytes += state.Bytes
		if s == subjects.Rollouts && state.Msgs > 1 {
			if err := r.rate(ctx, conn, run, &size, state.FirstSeq, state.LastSeq, state.LastTime); err != nil {
				return err
			}
		}
	}
	return nil
}

// rated is how many of the newest messages the rate is of.
const rated = 256

// rate looks at how long the newest messages took to come.
func (r *RunSize) rate(ctx context.Context, conn *bus.Conn, run subjects.Run, size *StreamSize, first, last uint64, at time.Time) error {
	if time.Since(at) > time.Minute {
		return nil
	}
	if record, err := bus.LookupRun(ctx, conn, run); err != nil || record.Ended != "" {
		return err
	}
	from := first
	if last > rated {
		from = max(first, last-rated)
	}
	m, err := bus.Read(ctx, conn, run.StreamName(subjects.Rollouts), from)
	if errors.Is(err, bus.ErrNotFound) { // purged meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	took := time.Since(m.Time).Seconds()
	r.Rate = float64(last-from) * float64(size.Bytes) / float64(size.Messages) / max(took, .001)
	if left := float64(size.Limit) - float64(size.Bytes); size.Limit > 0 && r.Rate > 0 {
		r.FullIn = max(left/r.Rate, .001)
	}
	return nil
}

// folder measures the run's folder.
func (r *RunSize) folder(dir runDir) error {
	r.Folder = map[string]int64{}
	for _, part := range []struct{ name, path string }{
		{"store", dir.store()}, {"weights", dir.weights()}, {"checkpoints", dir.checkpoints()}, {"logs", dir.logs()}, {"all", string(dir)}} {
		n, err := diskUse(part.path)
		if err != nil {
			return err
		}
		r.Folder[part.name] = n
	}
	var err error
	r.Free, err = bus.FreeBytes(string(dir))
	return err
}

// diskUse is the size of all files below a folder; those that go meanwhile are left out.
func diskUse(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", dir, err)
	}
	return total, nil
}

// RemoveOptions are what `headrace runs rm` is told.
type RemoveOptions struct {
	Force  bool // a live run, too
	Folder bool // the run's folder of a run on a named bus, too
}

// Removed is what was removed.
type Removed struct {
	Run    string `json:"run"`
	Bytes  uint64 `json:"bytes"` // of its streams
	Folder string `json:"folder,omitempty"`
}

// Remove deletes a run for ever: its streams, buckets and record, and its folder
// on this machine if it is there that the run was looked for.
func Remove(ctx context.Context, s Source, run subjects.Run, o RemoveOptions) (*Removed, error) {
	out := &Removed{Run: string(run)}
	if err := s.removeStreams(ctx, run, o, out); err != nil {
		return nil, err
	}
	if s.Remote && !o.Folder {
		return out, nil
	}
	dir := filepath.Join(s.Root, string(run))
	if _, err := os.Stat(dir); err != nil {
		return out, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("remove the run's folder: %w", err)
	}
	out.Folder = dir
	return out, nil
}

// removeStreams deletes what the bus has of a run, unless somebody plays it. A
// store that cannot be read goes with its folder.
func (s Source) removeStreams(ctx context.Context, run subjects.Run, o RemoveOptions, out *Removed) error {
	conn, done, stopped, err := s.openToRemove(ctx, run)
	if errors.Is(err, bus.ErrStoreLocked) {
		return fmt.Errorf("%w: a server holds its store: stop that first", ErrLive)
	}
	if err != nil {
		return err
	}
	defer done()
	if !o.Force && !stopped {
		if who, err := playedBy(ctx, conn, run); err != nil {
			return err
		} else if who != "" {
			return fmt.Errorf("%w: %s reported within the last %s: stop it, or say --force", ErrLive, who, liveFor)
		}
	}
	for _, stream := range subjects.Streams() {
		if state, err := bus.StreamState(ctx, conn, run, stream); err == nil {
			out.Bytes += state.Bytes
		} else if !errors.Is(err, bus.ErrNoStream) {
			return err
		}
	}
	return bus.DeleteRun(ctx, conn, run)
}

// openToRemove connects to the bus that has a run, and says whether nobody can
// play it: it lies in a folder whose store no server holds.
func (s Source) openToRemove(ctx context.Context, run subjects.Run) (conn *bus.Conn, done func(), stopped bool, err error) {
	dir := runDir(filepath.Join(s.Root, string(run)))
	if _, missing := os.Stat(dir.store()); !s.Remote && missing == nil {
		if conn, done, err = openStopped(ctx, dir, bus.Options{Name: "headrace runs rm " + string(run), Log: s.Log}); err == nil {
			return conn, done, true, nil
		}
	}
	conn, done, err = s.open(ctx, run)
	return conn, done, false, err
}

// liveFor is how long after its last report a role counts as there: they report
// every second.
const liveFor = 15 * time.Second

// playedBy names a role that takes part in the run now.
func playedBy(ctx context.Context, conn *bus.Conn, run subjects.Run) (string, error) {
	m, err := bus.Last(ctx, conn, run.StreamName(subjects.Telemetry), run.Filter(subjects.Telemetry))
	switch {
	case errors.Is(err, bus.ErrNotFound), errors.Is(err, bus.ErrNoStream):
		return "", nil
	case err != nil:
		return "", err
	case time.Since(m.Time) > liveFor:
		return "", nil
	}
	var g subjects.Gauges
	if subjects.DecodeMessage(m.Data, &g) != nil || g.Role == "" {
		return "a role", nil
	}
	return g.Role + " " + g.Instance, nil
}
