package bus_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// A server that is killed may forget that it leased a task. It never answers an
// ack of what it has not delivered, and leases the task again only to those who
// ask: a producer whose slots all waited for such an ack waited for ever.
func TestLease_AckOfAForgottenLeaseIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ready(t)
		queue(t, c, task("t1", 0, 0), true)
		l := leases(t, c)
		a := next(t, l)
		if err := c.JS().DeleteConsumer(t.Context(), run.StreamName(subjects.Tasks), subjects.TaskConsumer); err != nil {
			t.Fatal(err)
		}
		ensureRun(t, c) // makes it again, as it was before the task was leased
		begun := time.Now()
		if err := a.Ack(t.Context()); !errors.Is(err, bus.ErrTimeout) || time.Since(begun) > 10*time.Second {
			t.Errorf("%v after %s, want ErrTimeout", err, time.Since(begun))
		}
		if again := next(t, l); again.Task.ID() != a.Task.ID() {
			t.Errorf("leased %s", again.Task.ID())
		}
	})
}
