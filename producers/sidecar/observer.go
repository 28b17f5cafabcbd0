package sidecar

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/producers/sglang"
	"github.com/headrace/headrace/subjects"
)

const (
	askTimeout = 5 * time.Second // of a page of figures
	keptFresh  = 5 * time.Second // figures older than that are no longer told
)

// observer tells TELEMETRY how the engine is doing. It asks on its own time:
// an engine that is slow to say how it is holds no weights up.
type observer struct {
	cfg    Config
	conn   *bus.Conn
	client *sglang.Client
	sight  *sight

	mu      sync.Mutex
	figures sglang.Figures
	at      time.Time // of the figures

	// The asking goroutine's.
	place           sglang.BatchPlace
	mute, batchless int // the engine's life in which it was found to have no such page
}

// ask reads the engine's pages until ctx ends.
func (o *observer) ask(ctx context.Context) error {
	tick := time.NewTicker(o.cfg.Observe)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		life := o.sight.life()
		if life == 0 {
			continue // it has not answered yet
		}
		o.askFigures(ctx, life)
		o.askBatches(ctx, life)
	}
}

func (o *observer) askFigures(ctx context.Context, life int) {
	if o.mute == life {
		return
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	figures, err := o.client.Figures(asking)
	switch {
	case errors.Is(err, sglang.ErrNoPage):
		o.mute = life
		o.cfg.Log.Info().Str("engine", o.cfg.Engine).Msg("the engine tells no figures: start it with --enable-metrics to see its load, cache hits and throughput")
	case err != nil:
		o.cfg.Log.Debug().Err(err).Str("engine", o.cfg.Engine).Msg("read the engine's figures")
	default:
		o.mu.Lock()
		o.figures, o.at = figures, time.Now()
		o.mu.Unlock()
	}
}

// askBatches reads the device calls, which only our own engine tells.
func (o *observer) askBatches(ctx context.Context, life int) {
	if o.batchless == life {
		return
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	b, err := o.client.Batches(asking, o.place)
	switch {
	case errors.Is(err, sglang.ErrNoPage):
		o.batchless = life
	case err != nil:
		o.cfg.Log.Debug().Err(err).Str("engine", o.cfg.Engine).Msg("read the engine's batches")
	default:
		o.place = b.Place
		o.sight.drew(b)
	}
}

// gauge reports on TELEMETRY until ctx ends. A report that cannot be sent is
// worth nothing later and is dropped.
func (o *observer) gauge(ctx context.Context) error {
	tick := time.NewTicker(o.cfg.Observe)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		data, err := subjects.EncodeMessage(o.gauges(time.Now()))
		if err == nil {
			err = o.conn.Tell(o.cfg.Run.TelemetrySubject("engine", o.cfg.Engine), data)
		}
		if err != nil {
			o.cfg.Log.Debug().Err(err).Str("engine", o.cfg.Engine).Msg("report gauges")
		}
	}
}

func (o *observer) gauges(now time.Time) *subjects.Gauges {
	g := &subjects.Gauges{V: subjects.SchemaVersion, Role: "engine", Instance: o.cfg.Engine, At: now.UnixNano(), Values: o.sight.values()}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.at) < keptFresh {
		paused := g.Values["paused"]
		maps.Copy(g.Values, o.figures)
		g.Values["paused"] = max(paused, g.Values["paused"])
	}
	return g
}

// report sends the spans until ctx ends. Those that get lost are counted.
func (o *observer) report(ctx context.Context) error {
	if err := o.sight.Run(ctx, o.conn, o.cfg.Run); err != nil {
		o.cfg.Log.Debug().Err(err).Msg("report spans")
	}
	return nil
}
