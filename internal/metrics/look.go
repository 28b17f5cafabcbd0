package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// How long an episode took is in its body alone. So much of them is read: all of
// a small run, of a large one a sample.
const (
	lookBytes    = 1 << 20 // a second
	lookMessages = 64      // of one slice of headers
	lookLargest  = 1 << 20 // message that is looked into
)

// looker reads trajectories within a budget.
type looker struct {
	log    *Log
	fetch  *bus.Fetcher
	since  time.Time
	budget float64
	last   time.Time
	wanted []bus.SeqSize
}

func newLooker(l *Log, c *bus.Conn, run subjects.Run) *looker {
	now := time.Now()
	return &looker{log: l, since: now, last: now, budget: lookBytes, fetch: bus.NewFetcher(c, run.StreamName(subjects.Rollouts), bus.FetchConfig{})}
}

// offer takes a message that was stored since the exporter started, if there is
// room in the budget.
func (k *looker) offer(m *bus.HeaderMsg) {
	now := time.Now()
	k.budget = min(lookBytes, k.budget+now.Sub(k.last).Seconds()*lookBytes)
	k.last = now
	parted := len(m.Header[subjects.HeaderParts]) > 0
	if m.Time.Before(k.since) || parted || m.Size > lookLargest || float64(m.Size) > k.budget || len(k.wanted) >= lookMessages {
		return
	}
	k.budget -= float64(m.Size)
	k.wanted = append(k.wanted, bus.SeqSize{Seq: m.Seq, Size: m.Size})
}

// into reads what was taken. What is not there or cannot be read is passed over.
func (k *looker) into(ctx context.Context) error {
	if len(k.wanted) == 0 {
		return nil
	}
	err := k.fetch.Fetch(ctx, k.wanted, func(seq uint64, hdr nats.Header, data []byte) error {
		b, err := bus.OpenBundle(seq, hdr, data)
		if err != nil {
			return nil //nolint:nilerr // the inspector says so
		}
		for i := range b.Items {
			if body := b.Body(i); body != nil {
				if t, err := subjects.DecodeTrajectory(body); err == nil {
					k.log.Trajectory(t)
				}
			}
		}
		return nil
	})
	k.wanted = k.wanted[:0]
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var missing *bus.MissingError
	if errors.As(err, &missing) || errors.Is(err, bus.ErrMalformed) || errors.Is(err, bus.ErrNotFound) {
		return nil
	}
	return err
}
