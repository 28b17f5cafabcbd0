package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/subjects"
)

// counts are what the service itself counts; they only grow.
type counts struct {
	leased, published, returned, unpublished atomic.Int64
}

// spanNames are those of what a slot does beside playing.
type spanNames struct{ publish, ack, wait spans.Name }

// play runs the slots until ctx ends and the drain is over, or one of them
// finds that the process is of no more use.
func (s *service) play(ctx context.Context) error {
	slots, leasing := errgroup.WithContext(ctx)
	playing, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	done := make(chan struct{})
	var drain sync.WaitGroup
	drain.Go(func() {
		select {
		case <-leasing.Done():
		case <-done:
			return
		}
		timer := time.NewTimer(s.cfg.Drain)
		defer timer.Stop()
		select {
		case <-timer.C:
			giveUp(errDrained)
		case <-done:
		}
	})
	for i := range s.cfg.Slots {
		slots.Go(func() error { return s.slot(leasing, playing, int32(i)) })
	}
	err := slots.Wait()
	s.acking.Wait()
	close(done)
	drain.Wait()
	return err
}

var errDrained = errors.New("the producer is stopping")

// slot plays one episode after the other, on its lane of the trace.
func (s *service) slot(leasing, playing context.Context, lane int32) error {
	for leasing.Err() == nil {
		if leaked := s.player.Stats().Leaked.Load(); leaked >= int64(s.cfg.MaxLeaked) {
			return fmt.Errorf("%w: %d, at most %d: restart the producer, and look at the environment", ErrLeaked, leaked, s.cfg.MaxLeaked)
		}
		free := s.spans.Now()
		lease, err := s.leases.Next(leasing)
		if leasing.Err() != nil {
			if err == nil {
				s.giveBack(lease, 0)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("lease a task: %w", err)
		}
		on := s.spans.Episode(subjects.FlowID(lease.Task.Group, lease.Task.Slot, lease.Task.Attempt), lane)
		on.Beside(s.names.wait, lane, free, on.Now())
		if !s.serve(playing, lease, on) {
			pause(leasing, failurePause)
		}
	}
	return nil
}

// serve plays a lease and reports whether the episode did not fail. The lease
// is acked when its trajectory is durable, whatever its status; an episode
// that was cut by the end of the drain leaves none and is handed back.
func (s *service) serve(playing context.Context, lease *bus.Lease, on spans.Episode) bool {
	s.counts.leased.Add(1)
	s.held.add(lease)
	t := s.player.PlayOn(playing, lease.Task, on)
	if t.Status == subjects.Aborted {
		s.giveBack(lease, 0)
		return true
	}
	done := on.Now()
	if err := s.publish(playing, t); err != nil {
		if playing.Err() != nil {
			s.giveBack(lease, 0)
			return true
		}
		s.counts.unpublished.Add(1)
		s.cfg.Log.Error().Err(err).Str("trajectory", t.ID()).Msg("trajectory is not published")
		s.giveBack(lease, failurePause)
		return false
	}
	s.counts.published.Add(1)
	on.Record(s.names.publish, done, on.Now())
	s.ack(playing, lease, on)
	return t.Status != subjects.Failed
}

// ack acknowledges beside the slot, which plays on: the server syncs a removed
// task as it syncs a message, one after the other, and a burst of them takes as
// long as an episode. There are as many at once as slots; the lease is held until then.
func (s *service) ack(playing context.Context, lease *bus.Lease, on spans.Episode) {
	n := <-s.acks
	s.acking.Go(func() {
		defer func() { s.acks <- n }()
		defer s.held.remove(lease)
		begun := on.Now()
		if err := lease.Ack(playing); err != nil { // played again, and absorbed as a duplicate
			s.cfg.Log.Warn().Err(err).Str("trajectory", lease.Task.ID()).Msg("lease is not acknowledged")
		}
		on.Beside(s.names.ack, int32(s.cfg.Slots)+n, begun, on.Now())
	})
}

// publish makes the trajectory durable. One that no message can hold becomes a
// failure that says so, which the grouper can act on.
func (s *service) publish(ctx context.Context, t *subjects.Trajectory) error {
	_, err := s.publisher.Publish(ctx, t)
	if err == nil || !errors.Is(err, bus.ErrTooLarge) {
		return err
	}
	small := *t
	small.Status, small.Reason = subjects.Failed, "trajectory is too large for the bus: "+err.Error()
	small.Reward, small.Components = 0, nil
	small.Segments, small.Turns, small.Messages = nil, nil, nil
	_, err = s.publisher.Publish(ctx, &small)
	return err
}

func (s *service) giveBack(lease *bus.Lease, delay time.Duration) {
	s.held.remove(lease)
	s.counts.returned.Add(1)
	if err := lease.Nak(delay); err != nil { // it comes back by itself, later
		s.cfg.Log.Debug().Err(err).Str("task", lease.Task.ID()).Msg("lease is not handed back")
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// heartbeat extends every lease in time, in one sweep.
func (s *service) heartbeat(ctx context.Context) error {
	ticker := time.NewTicker(bus.LeaseTime / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, lease := range s.held.all() {
			if err := lease.InProgress(); err != nil { // the next sweep, or another producer
				s.cfg.Log.Debug().Err(err).Str("task", lease.Task.ID()).Msg("lease is not extended")
			}
		}
	}
}
