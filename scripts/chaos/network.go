package main

import (
	"context"
	"fmt"
	"time"
)

// clients are the processes whose way to NATS can be broken.
var clients = []string{"group-a", "bridge", "sidecar", "produce-a"}

// oneClient puts a proxy before a process that is drawn.
func oneClient(w *world) { w.plan.proxied = w.one(clients...) }

// whole is a wound that is healed when a step has been trained whose
// trajectories were all played after it.
func whole(back time.Time, format string, args ...any) wound {
	return wound{Text: fmt.Sprintf(format, args...), Back: back, Stage: cycle}
}

// cutOff closes the connections and refuses new ones for a while.
func cutOff(ctx context.Context, w *world) (wound, error) {
	away := w.between(0, 2*time.Second)
	w.proxy.refuse(true)
	err := pause(ctx, away)
	w.proxy.refuse(false)
	return whole(time.Now(), "connection of %s cut for %s", w.plan.proxied, away.Round(time.Millisecond)), err
}

// slowDown delays everything on the way.
func slowDown(ctx context.Context, w *world) (wound, error) {
	by, long := w.between(5*time.Millisecond, 100*time.Millisecond), w.between(500*time.Millisecond, 2*time.Second)
	w.proxy.slow(by)
	err := pause(ctx, long)
	w.proxy.slow(0)
	return whole(time.Now(), "connection of %s delayed by %s for %s", w.plan.proxied, by.Round(time.Millisecond), long.Round(time.Millisecond)), err
}

// halfOpen breaks the connections without a word to either side.
func halfOpen(_ context.Context, w *world) (wound, error) {
	w.proxy.freeze()
	return whole(time.Now(), "connection of %s half-open", w.plan.proxied), nil
}

// meddling does something to the acknowledgements of one process for a while.
func meddling(mode string) func(context.Context, *world) (wound, error) {
	return func(ctx context.Context, w *world) (wound, error) {
		long := w.between(300*time.Millisecond, 1500*time.Millisecond)
		w.proxy.spoil(&meddler{mode: mode, draw: w.pickOne})
		err := pause(ctx, long)
		w.proxy.spoil(nil)
		return whole(time.Now(), "acks of %s: %s for %s", w.plan.proxied, mode, long.Round(time.Millisecond)), err
	}
}
