package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	group "github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/metrics"
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
	// Wait is how long a bus that does not answer yet, or has no such run yet,
	// is asked again: the parts of a fleet start in any order.
	Wait time.Duration
	// Health, when set, is a file that is renewed while the bus answers.
	Health string
	// Metrics, when set, is the address that the role serves its numbers on.
	Metrics string
	Log     zerolog.Logger
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
	conn, err := j.connect(ctx, role)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // what was to be durable is acknowledged by now
	if j.Health != "" {
		defer heartbeat(conn, j.Health, j.Log)()
	}
	if r != nil {
		if err := ensureRun(ctx, conn, j.Run, r, 0); err != nil {
			return err
		}
	}
	var m *member
	err = j.patiently(ctx, "the bus has no such run yet, waiting for it", errNoRun, func() error {
		m, err = join(ctx, conn, j.Run, j.Log)
		return err
	})
	if err != nil {
		return err
	}
	j.Log.Info().Str("run", string(j.Run)).Str("role", role).Msg("joined")
	return fn(m)
}

// connect waits for a bus that does not answer yet.
func (j Join) connect(ctx context.Context, role string) (conn *bus.Conn, err error) {
	options := j.Bus
	options.Name, options.Log = "headrace "+role+" "+string(j.Run), j.Log
	err = j.patiently(ctx, "the bus does not answer yet, waiting for it", bus.ErrUnreachable, func() error {
		conn, err = bus.Connect(ctx, options)
		return err
	})
	return conn, err
}

// askAgain is the pause between two looks for a bus or a run.
const askAgain = 500 * time.Millisecond

// patiently tries again while the error is the one that time may heal.
func (j Join) patiently(ctx context.Context, what string, heals error, try func() error) error {
	deadline := time.Now().Add(j.Wait)
	for first := true; ; first = false {
		err := try()
		if !errors.Is(err, heals) || time.Now().After(deadline) {
			return err
		}
		if first {
			j.Log.Info().Str("run", string(j.Run)).Dur("for", j.Wait).Msg(what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askAgain):
		}
	}
}

// CreateRun makes a run of a recipe: streams, buckets, keys and the record.
// The other roles then need a URL, the run's name and credentials. A run that
// is there with the same recipe is left as it is.
func CreateRun(ctx context.Context, j Join, replicas int) error {
	r, err := loadRecipe(j.Recipe, nil)
	if err != nil {
		return err
	}
	if err := j.Run.Validate(); err != nil {
		return err
	}
	conn, err := j.connect(ctx, "runs create")
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // what was to be durable is acknowledged by now
	return ensureRun(ctx, conn, j.Run, r, replicas)
}

// Produce plays a run's tasks until ctx or the run ends.
func Produce(ctx context.Context, j Join, o ProduceOptions) error {
	return j.with(ctx, "produce", func(m *member) error {
		return m.exported(ctx, j.Metrics, []metrics.Own{{Role: metrics.RoleProducer, Instance: o.Name}}, func() error {
			return m.untilEnd(ctx, func(ctx context.Context) error { return m.produce(ctx, o) })
		})
	})
}

// untilEnd runs a role until it returns, or ends it when the run has ended.
func (m *member) untilEnd(ctx context.Context, role func(context.Context) error) error {
	return m.untilEndAnd(ctx, func(context.Context) {}, role)
}

// untilEndAnd is untilEnd for a role that is still needed after the run has
// ended, until last returns.
func (m *member) untilEndAnd(ctx context.Context, last func(context.Context), role func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if reason, err := bus.AwaitRunEnd(ctx, m.conn, m.run); err == nil {
			m.log.Info().Str("run", string(m.run)).Str("reason", reason).Msg("the run has ended")
			last(ctx)
			end(errRunOver)
		} else if ctx.Err() == nil {
			m.log.Warn().Err(err).Msg("the end of the run will not be noticed")
		}
	}()
	defer func() { end(nil); <-watched }()
	return unlessOver(ctx, role(ctx))
}

// errRunOver is why a role's context ends with its run.
var errRunOver = errors.New("the run has ended")

// unlessOver is the error of a role, unless it is that the run has ended under it.
func unlessOver(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errRunOver) {
		return nil
	}
	return err
}

// Group is a run's grouper until ctx or the run ends. Several may run: one
// decides, the others stand by.
func Group(ctx context.Context, j Join, writer string) error {
	return j.with(ctx, "group", func(m *member) error {
		err := m.exported(ctx, j.Metrics, []metrics.Own{{Role: metrics.RoleGrouper, Instance: writer}}, func() error {
			return m.withDesk(ctx, func(ctx context.Context) error { return m.group(ctx, writer) })
		})
		var ended *group.Ended
		if errors.As(err, &ended) && m.record.Ended == ended.Reason {
			m.log.Info().Str("run", string(m.run)).Str("reason", ended.Reason).Msg("the run had ended before: there is nothing to group")
			return nil
		}
		return err
	})
}

// Bridge feeds a trainer until ctx ends, or the run has and the trainer knows.
func Bridge(ctx context.Context, j Join, o BridgeOptions) error {
	o.Weights, o.Checkpoints, o.Demos = absolute(o.Weights), absolute(o.Checkpoints), absolute(o.Demos)
	return j.with(ctx, "bridge", func(m *member) error {
		return m.exported(ctx, j.Metrics, []metrics.Own{{Role: metrics.RoleBridge, Instance: o.Name}}, func() error {
			return m.feed(ctx, o, m.bridgeUntilEnd)
		})
	})
}

// feed is a bridge, with the files that its trainer needs and the trainer itself,
// if it is to be started.
func (m *member) feed(ctx context.Context, o BridgeOptions, bridge func(context.Context, BridgeOptions) error) error {
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
	if len(o.Trainer.Args) == 0 {
		return bridge(ctx, o)
	}
	trainer := o.Trainer.child("trainer", m.log, "HEADRACE_FEED="+o.Listen[0], "HEADRACE_CHECKPOINTS="+o.Checkpoints)
	return withTrainer(ctx, trainer, func(ctx context.Context) error { return bridge(ctx, o) })
}

// Engine keeps one inference engine at the run's newest weights until ctx or
// the run ends.
func Engine(ctx context.Context, j Join, o EngineOptions) error {
	o.Model = absolute(o.Model)
	return j.with(ctx, "engine", func(m *member) (err error) {
		if o.URL, err = reachable(m.conn, o.URL); err != nil {
			return err
		}
		if o.Model != "" {
			if err := m.writeModel(o.Model); err != nil {
				return err
			}
		}
		sidecar := func(ctx context.Context) error {
			return m.exported(ctx, j.Metrics, []metrics.Own{{Role: metrics.RoleEngine, Instance: o.Name}}, func() error {
				return m.untilEnd(ctx, func(ctx context.Context) error { return m.engine(ctx, o) })
			})
		}
		if len(o.Engine.Args) == 0 {
			return sidecar(ctx)
		}
		engine := o.Engine.child("engine", m.log, "HEADRACE_MODEL="+o.Model, fmt.Sprintf("HEADRACE_SLOTS=%d", m.recipe.Engine.Slots))
		return withEngine(ctx, engine, sidecar)
	})
}
