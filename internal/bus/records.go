package bus

import (
	"context"
	"errors"
	"time"

	"github.com/headrace/headrace/subjects"
)

// EngineTTL is how long an engine's entry lives without a refresh; engines
// refresh it every third of that.
const EngineTTL = 30 * time.Second

// CreateRun stores the record of a new run; ErrConflict when the run exists.
func CreateRun(ctx context.Context, c *Conn, r *subjects.RunRecord) error {
	return errors.ErrUnsupported
}

// PutRun stores the record of a run, new or not.
func PutRun(ctx context.Context, c *Conn, r *subjects.RunRecord) error { return errors.ErrUnsupported }

// LookupRun reads the record of a run; ErrNotFound when there is none,
// ErrIncompatible when its schema is newer than this build's.
func LookupRun(ctx context.Context, c *Conn, run subjects.Run) (*subjects.RunRecord, error) {
	return nil, errors.ErrUnsupported
}

// Runs lists the records of all runs, by name.
func Runs(ctx context.Context, c *Conn) ([]subjects.RunRecord, error) {
	return nil, errors.ErrUnsupported
}

// PutEngine registers or refreshes an engine.
func PutEngine(ctx context.Context, c *Conn, run subjects.Run, e *subjects.EngineRecord) error {
	return errors.ErrUnsupported
}

// RemoveEngine takes an engine off the registry. A missing one is no error.
func RemoveEngine(ctx context.Context, c *Conn, run subjects.Run, engine string) error {
	return errors.ErrUnsupported
}

// Engines lists the live engines, by id.
func Engines(ctx context.Context, c *Conn, run subjects.Run) ([]subjects.EngineRecord, error) {
	return nil, errors.ErrUnsupported
}

// WatchEngines calls fn with the live engines, by id: at once and after every
// change, entries that expire included. It returns fn's error, or when ctx ends.
func WatchEngines(ctx context.Context, c *Conn, run subjects.Run, fn func([]subjects.EngineRecord) error) error {
	return errors.ErrUnsupported
}
