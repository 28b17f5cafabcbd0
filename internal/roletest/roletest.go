// Package roletest plays the roles around a grouper in tests: a producer whose
// episodes the test makes up, the bridge's inspector, and a trainer that applies
// each batch as it comes.
//
// One idea explains its shape: a test says only what is special about its world, as
// a function; leases, message ids and acknowledgements are the same in every one.
package roletest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Run is a run whose roles are played. Each method returns when ctx ends, or with
// the first error of the bus.
type Run struct {
	Conn *bus.Conn
	Name subjects.Run
}

// Producer plays tasks.
type Producer struct {
	Slots int
	// Play makes up the episode of a task.
	Play func(*subjects.Task) *subjects.Trajectory
	// Published, if set, is told of each trajectory before its task is acknowledged.
	Published func(context.Context, *bus.Publisher, *subjects.Trajectory) error
}

// Produce is a producer called p1.
func (r Run) Produce(ctx context.Context, o Producer) error {
	leases, err := bus.Tasks(ctx, r.Conn, r.Name, zerolog.Nop())
	if err != nil {
		return err
	}
	defer func() { _ = leases.Close() }()
	p := bus.NewPublisher(r.Conn, bus.PublisherConfig{Run: r.Name, Producer: "p1"})
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
	var slots errgroup.Group
	for range o.Slots {
		slots.Go(func() error { return o.slot(ctx, leases, p) })
	}
	return slots.Wait()
}

func (o Producer) slot(ctx context.Context, leases *bus.Leases, p *bus.Publisher) error {
	for {
		l, err := leases.Next(ctx)
		if err != nil {
			return err
		}
		t := o.Play(l.Task)
		if _, err := p.Publish(ctx, t); err != nil {
			return errors.Join(err, l.Nak(0))
		}
		if o.Published != nil {
			if err := o.Published(ctx, p, t); err != nil {
				return err
			}
		}
		if err := l.Ack(ctx); err != nil {
			return err
		}
	}
}

// sayAgain is how often the inspector says how far it is, whatever happens: who
// was not there has not heard it.
const sayAgain = 100 * time.Millisecond

// Inspect does what the bridge's inspector does: bodies that no trainer with this
// vocabulary could use are dead-lettered.
func (r Run) Inspect(ctx context.Context, vocab int) error {
	var done atomic.Uint64
	say := func() error {
		return r.Conn.NC().Publish(r.Name.InspectedSubject(), strconv.AppendUint(nil, done.Load(), 10))
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		tick := time.NewTicker(sayAgain)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
			if err := say(); err != nil {
				return err
			}
		}
	})
	g.Go(func() error {
		return bus.FollowBundles(ctx, r.Conn, r.Name, 1, func(m *bus.Msg, b *bus.Bundle, _ error) error {
			if err := r.judge(ctx, vocab, b); err != nil {
				return err
			}
			done.Store(m.Seq)
			return say()
		})
	})
	return g.Wait()
}

// InspectAll inspects all that is there, once more where it was: to be called when
// the producers and the inspector have stopped, as a bridge inspects to the end of
// a run.
func (r Run) InspectAll(ctx context.Context, vocab int) error {
	stream := r.Name.StreamName(subjects.Rollouts)
	bodies := bus.NewFetcher(r.Conn, stream, bus.FetchConfig{})
	return bus.Each(ctx, r.Conn, stream, "", 1, func(m *bus.Msg) error {
		if bus.IsPart(m.Header) {
			return nil
		}
		data, err := bodies.Whole(ctx, m)
		if err != nil {
			return err
		}
		b, err := bus.OpenBundle(m.Seq, m.Header, data)
		if err != nil {
			return err
		}
		return r.judge(ctx, vocab, b)
	})
}

// judge buries what no trainer could use. What is buried twice is buried once.
func (r Run) judge(ctx context.Context, vocab int, b *bus.Bundle) error {
	for i := range b.Items {
		fault := b.Items[i].Err
		if fault == nil {
			_, fault = subjects.Inspect(b.Body(i), &b.Items[i].Entry, vocab)
		}
		if fault == nil {
			continue
		}
		if _, err := bus.Bury(ctx, r.Conn, r.Name, bus.DeadLetter{Stage: subjects.InspectStage, Reason: fault.Error(), Source: r.Name.StreamName(subjects.Rollouts),
			Sequence: b.Seq, Item: i, ID: b.Items[i].Entry.ID(), Data: b.Raw(i)}); err != nil {
			return err
		}
	}
	return nil
}

// Train is a trainer that starts afresh and commits every batch. Applied, if set,
// is called after each commit.
func (r Run) Train(ctx context.Context, applied func(context.Context, subjects.Step) error) error {
	if err := r.Say(ctx, subjects.EventResumed, 0, &subjects.ResumedEvent{V: 1, Incarnation: 1}); err != nil {
		return err
	}
	return bus.Follow(ctx, r.Conn, r.Name.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		for i := range e.Batches {
			step := e.Batches[i].Step
			err := r.Say(ctx, subjects.EventCommit, step, &subjects.CommitEvent{V: 1, Step: step, Incarnation: 1, At: time.Now().UnixNano()})
			if err == nil && applied != nil {
				err = applied(ctx, step)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Say publishes an event of the trainer's first start, once.
func (r Run) Say(ctx context.Context, kind subjects.WeightsEvent, n subjects.Step, e any) error {
	data, err := subjects.EncodeMessage(e)
	if err == nil {
		_, err = bus.Send(ctx, r.Conn, r.Name.WeightsSubject(kind), fmt.Sprintf("%s/1/%d", kind, n), nil, data)
	}
	return err
}
