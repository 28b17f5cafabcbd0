package trainerbridge

import (
	"context"
	"time"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/ring"
)

// gauge reports on TELEMETRY once a second, and a last time at the end. A
// report that cannot be sent is worth nothing later and is dropped.
func (b *bridge) gauge(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			b.publishGauges()
			return ctx.Err()
		case <-tick.C:
			b.publishGauges()
		}
	}
}

func (b *bridge) publishGauges() {
	data, err := subjects.EncodeMessage(b.gauges(time.Now()))
	if err == nil {
		err = b.Conn.Tell(b.Run.TelemetrySubject("bridge", b.Instance), data)
	}
	if err != nil {
		b.Log.Debug().Err(err).Msg("report gauges")
	}
}

func (b *bridge) gauges(now time.Time) *subjects.Gauges {
	g := &subjects.Gauges{V: subjects.SchemaVersion, Role: "bridge", Instance: b.Instance, At: now.UnixNano(), Values: b.stats.values(), Text: b.stats.said()}
	bytes, bundles := b.bodies.size()
	g.Values["cache_bytes"], g.Values["cache_bundles"] = float64(bytes), float64(bundles)
	g.Values["inspected_sequence"] = float64(b.inspector.done.Load())
	g.Values["ledger_step"] = float64(b.manifests.progress())
	sessions := b.active()
	g.Values["trainers"] = float64(len(sessions))
	for _, s := range sessions {
		select {
		case <-s.opened:
		default:
			continue
		}
		g.Values["batches_ready"] += float64(len(s.ready))
		g.Values["slots_held"] += float64(s.ring.Count(ring.Held))
		if waited, trained, ok := s.doing.soFar(now); ok && s.part.Rank == 0 {
			g.Values["step_wait_seconds"], g.Values["step_train_seconds"] = waited.Seconds(), trained.Seconds()
		}
	}
	return g
}
