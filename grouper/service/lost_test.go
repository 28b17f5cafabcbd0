package service_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// TestRun_GoesOnWhereTheLastMessagesAreLost: the server has lost the end of a
// stream, all tasks are played, so nothing comes until the grouper decides.
func TestRun_GoesOnWhereTheLastMessagesAreLost(t *testing.T) {
	b := newBench(t, natstest.InProcess(t), policy(3))
	stop := b.start(b.grouper)
	err := bus.Follow(t.Context(), b.conn, run.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return err
		}
		if len(e.Issued) > 0 {
			return errIssued
		}
		return nil
	})
	if !errors.Is(err, errIssued) {
		t.Fatal(err)
	}
	stop()
	stop = b.start(b.producer)
	b.idle()
	stop()
	for stream, m := range map[subjects.Stream]*nats.Msg{
		subjects.Rollouts:   {Subject: run.RolloutSubject("q"), Header: nats.Header{subjects.HeaderProducer: {"q"}}},
		subjects.Weights:    {Subject: run.WeightsSubject(subjects.EventCheckpoint)},
		subjects.DeadLetter: {Subject: run.DeadLetterSubject(subjects.InspectStage), Header: nats.Header{subjects.HeaderSource: {run.StreamName(subjects.Rollouts)}, subjects.HeaderSequence: {"999999"}}},
	} {
		if stream == subjects.DeadLetter { // one of them stays
			if _, err := bus.Send(t.Context(), b.conn, m.Subject, "kept", m.Header, nil); err != nil {
				t.Fatal(err)
			}
		}
		b.lose(stream, m)
	}
	for _, fn := range []func(context.Context) error{b.producer, b.trainer, b.inspector, b.grouper} {
		defer b.start(fn)()
	}
	audit(t, b.ledger(), 3, 4)
}

var errIssued = errors.New("tasks are issued")

// idle waits until every task is played: its acknowledgement takes it away.
func (b *bench) idle() {
	b.t.Helper()
	again := time.NewTicker(5 * time.Millisecond) // nothing announces it
	defer again.Stop()
	for {
		tasks, err := bus.StreamState(b.t.Context(), b.conn, run, subjects.Tasks)
		if err != nil {
			b.t.Fatal(err)
		}
		if tasks.LastSeq > 0 && tasks.Msgs == 0 {
			return
		}
		select {
		case <-again.C:
		case <-b.t.Context().Done():
			b.t.Fatal("tasks are left")
		}
	}
}

// lose stores a message and has the server lose it.
func (b *bench) lose(s subjects.Stream, m *nats.Msg) {
	b.t.Helper()
	seq, err := bus.Send(b.t.Context(), b.conn, m.Subject, "lost", m.Header, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	stream, err := b.conn.JS().Stream(b.t.Context(), run.StreamName(s))
	if err == nil {
		err = stream.DeleteMsg(b.t.Context(), seq)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
