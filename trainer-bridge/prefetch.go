package trainerbridge

import (
	"context"
	"errors"
	"time"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// prefetch prepares batches ahead of the trainer, as many as there are slots,
// from the step after its checkpoint on. It ends with the run's end or an error,
// which the answerer gives out in its turn.
func (s *session) prefetch(ctx context.Context) error {
	for {
		p := s.one(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.ready <- p // has room for all slots and an end
		if p.batch == nil {
			return nil
		}
		s.next++
	}
}

// one prepares the next batch.
func (s *session) one(ctx context.Context) (p prepared) {
	if s.MaxSteps > 0 && s.next > s.MaxSteps {
		return prepared{end: &feed.End{Reason: subjects.EndComplete, Steps: s.MaxSteps}}
	}
	m, err := s.manifests.await(ctx, s.next)
	var over *endOfRun
	if errors.As(err, &over) {
		return prepared{end: over.frame()}
	}
	if err != nil {
		return prepared{err: err}
	}
	if p.slot, err = s.ring.Acquire(ctx); err != nil {
		return prepared{err: err}
	}
	if p.batch, err = s.builder.build(ctx, m, s.ring.Slot(p.slot)); err != nil {
		return prepared{err: err}
	}
	p.batch.Slot, p.batch.Offset = p.slot, p.slot*s.ring.SlotBytes()
	return p
}

// answer answers NEXT: with the prepared batches in order; once the bridge
// drains, or after the end, with the end.
func (s *session) answer(ctx context.Context, nexts <-chan int64) error {
	var last *prepared // an end or an error, given again to who asks again
	for {
		var id int64
		select {
		case id = <-nexts:
		case <-ctx.Done():
			return ctx.Err()
		}
		begun := time.Now()
		s.doing.asks(begun)
		p, err := s.take(ctx, last, begun)
		if err != nil {
			return err
		}
		if p.batch == nil {
			last = &p
		}
		s.doing.answered(p.step(), time.Now())
		if err := s.give(id, p, time.Since(begun)); err != nil {
			return err
		}
	}
}

// step is the batch's; 0 without one.
func (p *prepared) step() subjects.Step {
	if p.batch == nil {
		return 0
	}
	return p.batch.Step
}

// take waits for what answers a NEXT.
func (s *session) take(ctx context.Context, last *prepared, begun time.Time) (prepared, error) {
	if last != nil {
		return *last, nil
	}
	select {
	case <-s.draining:
		return s.drained(), nil
	default:
	}
	look := time.NewTicker(min(stallLook, s.stallEvery))
	defer look.Stop()
	for w := (waiting{begun: begun}); ; {
		heard := s.hearsay.last(time.Now())
		if heard.end != nil && s.manifests.progress() <= s.lastDelivered() {
			return prepared{end: &feed.End{Reason: heard.end.Reason, Text: heard.end.Text, Steps: s.manifests.progress()}}, nil
		}
		select {
		case p := <-s.ready:
			return p, nil
		case <-s.draining:
			return s.drained(), nil
		case <-ctx.Done():
			return prepared{}, ctx.Err()
		case <-heard.news:
		case <-look.C:
		}
		if err := s.stalled(&w, time.Now()); err != nil {
			return prepared{}, err
		}
	}
}

// drained is what a trainer is told when the bridge stops: why the run ended,
// if it has and every batch is given out.
func (s *session) drained() prepared {
	if over := s.manifests.over(s.lastDelivered()); over != nil {
		return prepared{end: over.frame()}
	}
	return prepared{end: &feed.End{Reason: "drained", Steps: s.manifests.progress()}}
}

func (e *endOfRun) frame() *feed.End {
	return &feed.End{Reason: e.reason, Text: e.text, Steps: e.steps}
}

// give sends the answer.
func (s *session) give(id int64, p prepared, waited time.Duration) error {
	switch {
	case p.err != nil:
		s.Log.Error().Err(p.err).Msg("batch cannot be built")
		s.fail(p.err)
		return s.out.send(feed.TypeError, feed.Refusal{ID: id, Message: p.err.Error()})
	case p.end != nil:
		end := *p.end
		end.ID = id
		return s.out.send(feed.TypeEnd, end)
	}
	batch := *p.batch
	batch.ID = id
	s.deliver(batch.Step)
	s.stats.waitNanos.Add(int64(waited))
	s.stats.spans.did(s.stats.spans.wait, waitLane(s.part.Rank), s.stats.spans.Now()-int64(waited), batch.Step)
	s.stats.delivered.Store(int64(batch.Step))
	if s.part.Rank == 0 {
		s.OnEvent(Event{Kind: Delivered, Step: batch.Step, Incarnation: s.incarnation, Wait: waited})
	}
	if s.transport == feed.MemFD {
		s.ring.Hold(p.slot)
		return s.out.send(feed.TypeBatch, batch)
	}
	batch.Slot, batch.Offset = -1, 0
	if err := s.out.send(feed.TypeBatch, batch, s.ring.Slot(p.slot)[:batch.Bytes]...); err != nil {
		return err
	}
	return s.ring.Return(p.slot)
}

func (s *session) deliver(step subjects.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delivered = step
}

func (s *session) lastDelivered() subjects.Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.delivered, s.start)
}
