package service_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// strict is an inspector that finds every first attempt at slot 0 malformed.
func (b *bench) strict(ctx context.Context) error {
	return bus.FollowHeaders(ctx, b.conn, run, 1, func(msgs []bus.HeaderMsg) error {
		for _, m := range msgs {
			for i, text := range m.Header[subjects.HeaderIndex] {
				e, err := subjects.ParseIndex(text)
				if err != nil || e.Slot != 0 || e.Attempt != 0 || e.Kind != subjects.Train {
					continue
				}
				if _, err := bus.Bury(ctx, b.conn, run, bus.DeadLetter{Stage: subjects.InspectStage, Reason: "malformed", Source: run.StreamName(subjects.Rollouts),
					Sequence: m.Seq, Item: i, ID: e.ID(), Data: []byte("x")}); err != nil {
					return err
				}
			}
			if err := b.conn.NC().Publish(run.InspectedSubject(), strconv.AppendUint(nil, m.Seq, 10)); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestRun_RejectedTrajectoriesAreNeverTrainedAndTheirSlotsRetried(t *testing.T) {
	cfg := policy(8)
	cfg.Evaluation.Every = 0
	b := newBench(t, natstest.Loopback(t), cfg)
	for _, fn := range []func(context.Context) error{b.producer, b.trainer, b.strict, b.inspectorsEcho} {
		defer b.start(fn)()
	}
	defer b.start(func(ctx context.Context) error {
		for ctx.Err() == nil {
			life, kill := context.WithTimeout(ctx, 150*time.Millisecond)
			err := service.Run(life, b.cfg)
			ended := life.Err() == nil
			kill()
			if err != nil || ended {
				return err
			}
		}
		return nil
	})()
	ledger := b.ledger()
	audit(t, ledger, 8, 4)
	for _, e := range ledger {
		for _, batch := range e.Batches {
			for _, g := range batch.Groups {
				if first := g.Members[0]; first.Slot == 0 && first.Attempt == 0 {
					t.Errorf("batch %d trains the rejected %s/0/0", batch.Step, g.Group)
				}
			}
		}
	}
}

// inspectorsEcho repeats the newest word of the inspector, as the real one does.
func (b *bench) inspectorsEcho(ctx context.Context) error {
	words := make(chan *nats.Msg, 1024)
	sub, err := b.conn.NC().ChanSubscribe(run.InspectedSubject(), words)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for best := uint64(0); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-words:
			seq, _ := strconv.ParseUint(string(m.Data), 10, 64)
			best = max(best, seq)
		case <-again.C:
			if err := b.conn.NC().Publish(run.InspectedSubject(), strconv.AppendUint(nil, best, 10)); err != nil {
				return err
			}
		}
	}
}

func TestRun_ReportsWhatItWaitsFor(t *testing.T) {
	b := newBench(t, natstest.Loopback(t), policy(3))
	defer b.start(b.grouper)()
	seen := make(chan subjects.Gauges, 1)
	defer b.start(func(ctx context.Context) error {
		return bus.Follow(ctx, b.conn, run.StreamName(subjects.Telemetry), run.TelemetrySubject("grouper", "*"), 1, func(m *bus.Msg) error {
			var g subjects.Gauges
			if err := subjects.DecodeMessage(m.Data, &g); err != nil {
				return err
			}
			select {
			case seen <- g:
			default:
			}
			return nil
		})
	})()
	g := <-seen
	if g.Role != "grouper" || g.Values["open_groups"] != 12 || g.Values["slots_in_flight"] != 48+8 || !strings.Contains(g.Text, "4 slots of group t0") {
		t.Errorf("reports %+v", g)
	}
}
