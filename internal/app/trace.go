package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/headrace/headrace/consumers/trace"
	"github.com/headrace/headrace/subjects"
)

type (
	// TraceOptions choose what of a run is drawn.
	TraceOptions = trace.Options
	// TraceReport says what was.
	TraceReport = trace.Report
)

// DefaultTrace is how much of a run's end is drawn when nobody says.
const DefaultTrace = trace.DefaultLast

// Trace writes a window of a run as a Perfetto trace into a file, which is there
// when it is whole.
func Trace(ctx context.Context, s Source, run subjects.Run, o trace.Options, path string) (_ *trace.Report, err error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return nil, fmt.Errorf("write trace: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if !s.Remote && o.Profiles == "" {
		o.Profiles = s.profiles(run)
	}
	report, err := trace.Write(ctx, conn, run, o, f)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return nil, err
	}
	return report, os.Rename(f.Name(), path)
}

// profiles is the folder of a local run's JAX profiles.
func (s Source) profiles(run subjects.Run) string {
	return filepath.Join(runDir(filepath.Join(s.Root, string(run))).checkpoints(), "profiles")
}
