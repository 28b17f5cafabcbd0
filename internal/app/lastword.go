package app

import (
	"context"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	trainerbridge "github.com/headrace/headrace/trainer-bridge"
)

// lastWordPatience is how long a bridge of a run that has ended stays for a
// trainer that is away, perhaps restarting: it should hear of the end.
const lastWordPatience = 15 * time.Second

// trainers counts the trainers at a bridge.
type trainers struct {
	mu      sync.Mutex
	open    int
	changed chan struct{} // holds one
}

func (t *trainers) event(e trainerbridge.Event) {
	t.mu.Lock()
	switch e.Kind {
	case trainerbridge.Connected:
		t.open++
	case trainerbridge.Disconnected:
		t.open--
	}
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func (t *trainers) connected() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}

// gone waits until every trainer has said goodbye. If none is there it waits
// for one first, for a while.
func (t *trainers) gone(ctx context.Context, patience time.Duration) {
	late := time.After(patience)
	seen := false
	for {
		n := t.connected()
		seen = seen || n > 0
		if seen && n == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
		case <-late:
			if n == 0 {
				return
			}
		}
	}
}

// bridgeUntilEnd serves trainers until ctx ends, or the run has ended and its
// trainer was told so.
func (m *member) bridgeUntilEnd(ctx context.Context, o BridgeOptions) error {
	there := &trainers{changed: make(chan struct{}, 1)}
	o.onEvent = there.event
	toldSo := func(ctx context.Context) { there.gone(ctx, lastWordPatience) }
	return m.untilEndAnd(ctx, toldSo, func(ctx context.Context) error { return m.bridge(ctx, o) })
}

// lastWord writes the end that the ledger has into the run's record, for the
// roles that may not read the ledger.
func (m *member) lastWord(ctx context.Context) error {
	last, err := bus.Last(ctx, m.conn, m.run.StreamName(subjects.Ledger), m.run.LedgerSubject())
	if err != nil {
		return err
	}
	var e subjects.Entry
	if err := subjects.DecodeMessage(last.Data, &e); err != nil || e.End == "" {
		return err
	}
	return bus.EndRun(ctx, m.conn, m.run, e.End)
}
