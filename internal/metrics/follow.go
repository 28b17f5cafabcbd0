package metrics

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// streamsEvery is how often the server is asked about the run's streams.
const streamsEvery = 5 * time.Second

// Follow folds a run's log, and with reports what its roles say, until ctx ends.
// It is a tap: headers alone of the rollouts, no lease, no acknowledgement.
func Follow(ctx context.Context, c *bus.Conn, run subjects.Run, l *Log, reports *Reports) error {
	g, ctx := errgroup.WithContext(ctx)
	first := func(s subjects.Stream) uint64 {
		state, err := bus.StreamState(ctx, c, run, s)
		if err != nil {
			return 1
		}
		if s == subjects.Telemetry {
			return state.LastSeq + 1 // what was said an hour ago is of no instance that lives
		}
		return state.FirstSeq
	}
	follow := func(s subjects.Stream, fold func(*bus.Msg)) {
		g.Go(func() error {
			return bus.Follow(ctx, c, run.StreamName(s), run.Filter(s), first(s), func(m *bus.Msg) error {
				fold(m)
				return nil
			})
		})
	}
	follow(subjects.Ledger, func(m *bus.Msg) { into(m.Data, l.Entry) })
	follow(subjects.Weights, func(m *bus.Msg) { l.weights(m) })
	follow(subjects.Telemetry, func(m *bus.Msg) { telemetry(m.Subject, m.Data, l, reports) })
	g.Go(func() error { return l.rollouts(ctx, c, run, first(subjects.Rollouts)) })
	g.Go(func() error { return l.streams(ctx, c, run) })
	return g.Wait()
}

// into decodes a message. What cannot be decoded is no number.
func into[T any](data []byte, fold func(*T)) {
	var e T
	if subjects.DecodeMessage(data, &e) == nil {
		fold(&e)
	}
}

func (l *Log) weights(m *bus.Msg) {
	_, kind, _ := strings.Cut(m.Subject, ".weights.")
	kind, _, _ = strings.Cut(kind, ".")
	switch subjects.WeightsEvent(kind) {
	case subjects.EventCommit:
		into(m.Data, l.Commit)
	case subjects.EventVersion:
		into(m.Data, l.Version)
	case subjects.EventCheckpoint:
		into(m.Data, l.Checkpoint)
	case subjects.EventResumed:
		into(m.Data, l.Resumed)
	case "ack":
		into(m.Data, l.Ack)
	}
}

// telemetry folds a report: gauges into reports, the trainer's spans into l.
// Either may be nil.
func telemetry(subject string, data []byte, l *Log, reports *Reports) {
	if subjects.IsSpans(subject) {
		if l != nil && strings.Contains(subject, "."+roleTrainer+".") {
			into(data, l.Spans)
		}
		return
	}
	if reports == nil || strings.Contains(subject, "."+subjects.WatchdogRole+".") {
		return
	}
	var g subjects.Gauges
	if subjects.DecodeMessage(data, &g) != nil || !strings.HasSuffix(subject, "."+g.Role+"."+g.Instance) {
		reports.ignore() // unreadable, or under a name that is not its own
		return
	}
	reports.Report(&g)
}

// rollouts folds headers, and looks into what is stored from now on.
func (l *Log) rollouts(ctx context.Context, c *bus.Conn, run subjects.Run, from uint64) error {
	look := newLooker(l, c, run)
	return bus.FollowHeaders(ctx, c, run, from, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			m := &msgs[i]
			if bus.IsPart(m.Header) {
				continue
			}
			l.Header(m.Header[subjects.HeaderIndex], m.Size)
			look.offer(m)
		}
		return look.into(ctx)
	})
}

// streams asks for the size of every stream, again and again.
func (l *Log) streams(ctx context.Context, c *bus.Conn, run subjects.Run) error {
	tick := time.NewTicker(streamsEvery)
	defer tick.Stop()
	for {
		for _, s := range subjects.Streams() {
			if config, state, err := bus.StreamLimits(ctx, c, run, s); err == nil {
				l.Stream(s, state.Msgs, state.Bytes, config.MaxBytes)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Tap folds what instances of this process's roles report, by listening on the
// connection that they report on, until the returned function is called. It
// needs no stream and no right but to hear oneself.
func Tap(c *bus.Conn, run subjects.Run, own []Own, reports *Reports) (stop func(), err error) {
	var subs []*nats.Subscription
	stop = func() {
		for _, s := range subs {
			_ = s.Unsubscribe()
		}
	}
	for _, o := range own {
		sub, err := c.NC().Subscribe(run.TelemetrySubject(o.Role, o.Instance), func(m *nats.Msg) { telemetry(m.Subject, m.Data, nil, reports) })
		if err != nil {
			stop()
			return nil, errors.Join(errors.New("listen to what this role reports"), err)
		}
		subs = append(subs, sub)
	}
	return stop, nil
}

// Own names an instance of a role in this process.
type Own struct{ Role, Instance string }
