package app

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/subjects"
)

// Join is how a role that runs alone finds its run.
type Join struct {
	Bus bus.Options
	Run subjects.Run
	// Recipe, when set, is the file or folder of the recipe that the run is
	// made of if the bus has none of that name.
	Recipe string
	Log    zerolog.Logger
}

// with connects, reads the run's record and hands both to fn.
func (j Join) with(ctx context.Context, role string, fn func(*member) error) error {
	if err := j.Run.Validate(); err != nil {
		return err
	}
	var r *recipe.Recipe
	if j.Recipe != "" {
		var err error
		if r, err = loadRecipe(j.Recipe, nil); err != nil {
			return err
		}
	}
	options := j.Bus
	options.Name, options.Log = "headrace "+role+" "+string(j.Run), j.Log
	conn, err := bus.Connect(ctx, options)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // what was to be durable is acknowledged by now
	if r != nil {
		if err := ensureRun(ctx, conn, j.Run, r); err != nil {
			return err
		}
	}
	m, err := join(ctx, conn, j.Run, j.Log)
	if err != nil {
		return err
	}
	j.Log.Info().Str("run", string(j.Run)).Str("role", role).Msg("joined")
	return fn(m)
}

// Produce plays a run's tasks until ctx or the run ends.
func Produce(ctx context.Context, j Join, o ProduceOptions) error {
	return j.with(ctx, "produce", func(m *member) error {
		return m.untilEnd(ctx, func(ctx context.Context) error { return m.produce(ctx, o) })
	})
}

// untilEnd runs a role until it returns, or ends it when the run has ended. A
// role that may not read the ledger goes on until it is told to stop.
func (m *member) untilEnd(ctx context.Context, role func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := m.awaitEnd(ctx); err == nil {
			m.log.Info().Str("run", string(m.run)).Msg("the run has ended")
			cancel()
		} else if ctx.Err() == nil {
			m.log.Debug().Err(err).Msg("the end of the run will not be noticed")
		}
	}()
	defer func() { cancel(); <-watched }()
	return role(ctx)
}

// awaitEnd returns nil when the ledger says that the run has ended.
func (m *member) awaitEnd(ctx context.Context) error {
	state, err := bus.StreamState(ctx, m.conn, m.run, subjects.Ledger)
	if err != nil {
		return err
	}
	err = bus.Follow(ctx, m.conn, m.run.StreamName(subjects.Ledger), m.run.Filter(subjects.Ledger), max(1, state.LastSeq), func(msg *bus.Msg) error {
		var e subjects.Entry
		if subjects.DecodeMessage(msg.Data, &e) == nil && e.End != "" {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// Group is a run's grouper until ctx ends. Several may run: one decides, the
// others stand by.
func Group(ctx context.Context, j Join, writer string) error {
	return j.with(ctx, "group", func(m *member) error { return m.group(ctx, writer) })
}

// Bridge feeds a trainer until ctx ends.
func Bridge(ctx context.Context, j Join, o BridgeOptions) error {
	o.Weights, o.Checkpoints, o.Demos = absolute(o.Weights), absolute(o.Checkpoints), absolute(o.Demos)
	return j.with(ctx, "bridge", func(m *member) error {
		if o.Model != "" {
			if err := m.writeModel(o.Model); err != nil {
				return err
			}
		}
		if o.Demos != "" {
			if err := m.writeDemos(ctx, o.Demos); err != nil {
				return err
			}
		}
		return m.bridge(ctx, o)
	})
}

// Engine keeps one inference engine at the run's newest weights until ctx ends.
func Engine(ctx context.Context, j Join, o EngineOptions) error {
	return j.with(ctx, "engine", func(m *member) error { return m.engine(ctx, o) })
}
