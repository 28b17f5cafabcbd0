package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

func TestDropTasks_LeavesNoLease(t *testing.T) {
	c := ready(t)
	var tasks []*subjects.Task
	for i := range 5 {
		tasks = append(tasks, &subjects.Task{V: 1, Kind: subjects.Train, Group: subjects.TrainGroup(uint64(i)), Environment: "lake"})
	}
	if n, err := bus.PublishTasks(t.Context(), c, run, tasks); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	leases, err := bus.Tasks(t.Context(), c, run, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer leases.Close() //nolint:errcheck // nothing to lose
	var held []*bus.Lease
	for range 2 {
		l, err := leases.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
	}
	for _, want := range []int{5, 0} {
		if n, err := bus.DropTasks(t.Context(), c, run); n != want || err != nil {
			t.Fatalf("dropped %d, %v; want %d", n, err, want)
		}
	}
	// A producer that is still at it finds nothing to wait for.
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := held[0].Ack(ctx); err != nil {
		t.Errorf("acknowledge after %v: %v", time.Since(begun), err)
	}
	if err := held[1].Nak(0); err != nil {
		t.Error(err)
	}
	js := c.JS()
	consumer, err := js.Consumer(t.Context(), run.StreamName(subjects.Tasks), subjects.TaskConsumer)
	if err != nil {
		t.Fatal(err)
	}
	info, err := consumer.Info(t.Context())
	if err != nil || info.NumAckPending != 0 || info.NumPending != 0 {
		t.Errorf("%d leased, %d queued, %v", info.NumAckPending, info.NumPending, err)
	}
	if bytes, limit, last, err := bus.StreamUsage(t.Context(), c, run, subjects.Tasks); bytes != 0 || limit == 0 || last != 5 || err != nil {
		t.Errorf("%d of %d bytes, last %d, %v", bytes, limit, last, err)
	}
}
