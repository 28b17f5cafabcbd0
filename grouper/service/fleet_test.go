package service_test

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

type natsMsg = nats.Msg

// gauge reports once for a producer.
func (b *bench) gauge(name string, held []subjects.HeldLease) {
	data, err := subjects.EncodeMessage(&subjects.Gauges{V: 1, Role: "produce", Instance: name, Leases: held,
		Values: map[string]float64{"leases_held": float64(len(held))}})
	if err == nil {
		err = b.conn.NC().Publish(run.TelemetrySubject("produce", name), data)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// gauges reports for a producer every second until the test ends.
func (b *bench) gauges(name string, held []subjects.HeldLease) {
	b.t.Cleanup(b.start(func(ctx context.Context) error {
		for tick := time.NewTicker(time.Second); ; {
			b.gauge(name, held)
			select {
			case <-ctx.Done():
				tick.Stop()
				return nil
			case <-tick.C:
			}
		}
	}))
}

// slowly plays one task after the other until the test ends, each in a tenth of a
// second, so that a bubble's time goes on; spoil changes what comes of it.
func (b *bench) slowly(spoil func(*subjects.Trajectory)) {
	b.gauges("p1", nil)
	b.t.Cleanup(b.start(func(ctx context.Context) error {
		leases, err := bus.Tasks(ctx, b.conn, run, zerolog.Nop())
		if err != nil {
			return err
		}
		defer leases.Close() //nolint:errcheck // nothing to lose
		p := bus.NewPublisher(b.conn, bus.PublisherConfig{Run: run, Producer: "p1"})
		defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
		for {
			l, err := leases.Next(ctx)
			if err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(100 * time.Millisecond):
			}
			tr := trajectory(l.Task)
			if spoil != nil {
				spoil(tr)
			}
			if _, err := p.Publish(ctx, tr); err != nil {
				return err
			}
			if err := l.Ack(ctx); err != nil {
				return err
			}
		}
	}))
}
