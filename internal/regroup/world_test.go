package regroup_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/dataset"
	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/regroup"
	"github.com/headrace/headrace/subjects"
)

const vocab = 100

// world is a run on a real server, played to its end by the real grouper and
// publisher; the test plays the inspector and the trainer.
type world struct {
	testing.TB
	conn *bus.Conn
	run  subjects.Run
	cfg  grouper.Config
	key  []byte
}

func policy() grouper.Config {
	return grouper.Config{Steps: 12, GroupSize: 4, GroupsPerBatch: 3, MaxStaleness: new(2), VersionWait: time.Millisecond,
		Evaluation: grouper.Evaluation{Every: 4, Tasks: 4}}
}

// played is a run that has come to its end.
func played(t testing.TB, run subjects.Run, cfg grouper.Config) *world {
	w := &world{TB: t, conn: natstest.Connect(t, natstest.Loopback(t)), run: run, cfg: cfg}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{RolloutBytes: 1 << 28}))
	var err error
	w.key, err = bus.LeaseKey(t.Context(), w.conn, run)
	w.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, role := range []func(context.Context) error{w.train, w.inspect, w.produce} {
		wg.Go(func() {
			if err := role(ctx); err != nil && ctx.Err() == nil {
				w.Error(err)
			}
		})
	}
	data, err := dataset.Open(dataset.Config{}, 4, 1)
	w.must(err)
	w.must(service.Run(ctx, service.Config{Conn: w.conn, Run: run, Grouper: cfg, Dataset: data, Environment: "lake",
		Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8, Seed: 1}, Writer: "a", Log: zerolog.Nop()}))
	cancel()
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) produce(ctx context.Context) error {
	leases, err := bus.Tasks(ctx, w.conn, w.run, zerolog.Nop())
	if err != nil {
		return err
	}
	defer func() { _ = leases.Close() }()
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: w.run, Producer: "p1"})
	defer func() { _ = p.Close(context.WithoutCancel(ctx)) }()
	errs := make(chan error, 8)
	for range 8 {
		go func() { errs <- slot(ctx, leases, p) }()
	}
	for range 8 {
		err = errors.Join(err, <-errs)
	}
	return err
}

func slot(ctx context.Context, leases *bus.Leases, p *bus.Publisher) error {
	for {
		l, err := leases.Next(ctx)
		if err != nil {
			return err
		}
		if _, err := p.Publish(ctx, episode(l.Task)); err != nil {
			return errors.Join(err, l.Nak(0))
		}
		if err := l.Ack(ctx); err != nil {
			return err
		}
	}
}

// episode fails at the first attempt now and then, and has a body that no
// inspector takes now and then; every seventh group's rewards are all equal.
func episode(t *subjects.Task) *subjects.Trajectory {
	tr := &subjects.Trajectory{Kind: t.Kind, Group: t.Group, Slot: t.Slot, Attempt: t.Attempt, Round: t.Round, Environment: t.Environment,
		Seed: t.Seed, Producer: "p1", Tokenizer: "bytes", Sampling: t.Sampling, Status: subjects.Succeeded, Token: t.Token,
		Reward: float64((int(t.Slot)*7+int(t.Seed))%3) / 2}
	if t.Seed%7 == 0 {
		tr.Reward = 1
	}
	n := int(t.Seed)*31 + int(t.Slot)*7
	if n%9 == 0 && t.Attempt == 0 {
		tr.Status, tr.Reward, tr.Reason = subjects.Failed, 0, "engine"
		return tr
	}
	s := subjects.Segment{Parent: -1, Versions: []subjects.VersionSpan{{Start: 10, End: 30, Version: 1 << 20}}, LossMask: []subjects.Span{{Start: 10, End: 30}}}
	for i := range int32(30) {
		s.Tokens = append(s.Tokens, (i*int32(t.Slot)+i)%vocab) //nolint:gosec // small
		if i >= 10 {
			s.Logprobs = append(s.Logprobs, -float32(i)/40)
		}
	}
	if n%23 == 0 && t.Attempt == 0 {
		s.Logprobs[3] = 2 // of a probability above 1
	}
	tr.Segments = []subjects.Segment{s}
	return tr
}

func (w *world) train(ctx context.Context) error {
	if err := w.event(ctx, subjects.EventResumed, 0, &subjects.ResumedEvent{V: 1, Incarnation: 1}); err != nil {
		return err
	}
	return bus.Follow(ctx, w.conn, w.run.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		for i := range e.Batches {
			step := e.Batches[i].Step
			if err := w.event(ctx, subjects.EventCommit, step, &subjects.CommitEvent{V: 1, Step: step, Incarnation: 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) event(ctx context.Context, kind subjects.WeightsEvent, n subjects.Step, e any) error {
	data, err := subjects.EncodeMessage(e)
	if err == nil {
		_, err = bus.Send(ctx, w.conn, w.run.WeightsSubject(kind), fmt.Sprintf("%s/1/%d", kind, n), nil, data)
	}
	return err
}

func (w *world) inspect(ctx context.Context) error {
	return bus.FollowBundles(ctx, w.conn, w.run, 1, func(m *bus.Msg, b *bus.Bundle, _ error) error {
		for i := range b.Items {
			if _, fault := subjects.Inspect(b.Body(i), &b.Items[i].Entry, vocab); fault != nil {
				if _, err := bus.Bury(ctx, w.conn, w.run, bus.DeadLetter{Stage: subjects.InspectStage, Reason: fault.Error(), Source: w.run.StreamName(subjects.Rollouts),
					Sequence: m.Seq, Item: i, ID: b.Items[i].Entry.ID(), Data: b.Raw(i)}); err != nil {
					return err
				}
			}
		}
		return w.conn.NC().Publish(w.run.InspectedSubject(), strconv.AppendUint(nil, m.Seq, 10))
	})
}

// regroup groups the run by another policy.
func (w *world) regroup(cfg grouper.Config) *regroup.Report {
	w.Helper()
	r, err := regroup.Run(w.Context(), w.conn, w.run, regroup.Options{Policy: cfg, Own: w.own()})
	w.must(err)
	return r
}
