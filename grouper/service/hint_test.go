package service_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// wordy is an inspector that passes everything, says so again and again, and
// with each word up to where its letters are.
func (b *bench) wordy(ctx context.Context) error {
	var seq atomic.Uint64
	word := func() error {
		m := nats.NewMsg(run.InspectedSubject())
		m.Data = strconv.AppendUint(nil, seq.Load(), 10)
		m.Header.Set(subjects.HeaderLetters, "0")
		return b.conn.NC().PublishMsg(m)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for again := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-again.C {
			_ = word()
		}
	})
	return bus.FollowHeaders(ctx, b.conn, run, 1, func(msgs []bus.HeaderMsg) error {
		seq.Store(msgs[len(msgs)-1].Seq)
		return word()
	})
}

// TestRun_TheInspectorsWordCostsNoCall counts how often a run that has no dead
// letters asks the server for them: at its start, and not once a word.
func TestRun_TheInspectorsWordCostsNoCall(t *testing.T) {
	b := newBench(t, natstest.InProcess(t), policy(8))
	asked := make(chan *nats.Msg, 4096)
	sub, err := b.conn.NC().ChanSubscribe("$JS.API.STREAM.INFO."+run.StreamName(subjects.DeadLetter), asked)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection ends with the test
	for _, fn := range []func(context.Context) error{b.producer, b.trainer, b.wordy, b.grouper} {
		defer b.start(fn)()
	}
	audit(t, b.ledger(), 8, 4)
	if n := len(asked); n == 0 || n > 4 {
		t.Errorf("asked %d times", n)
	}
}
