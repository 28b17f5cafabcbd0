package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

var rollouts = run.StreamName(subjects.Rollouts)

// fill publishes n numbered messages.
func fill(t testing.TB, c *bus.Conn, from, n, size int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		hdr := nats.Header{"N": {fmt.Sprint(i)}}
		if _, err := bus.Send(t.Context(), c, run.RolloutSubject("p1"), fmt.Sprint("fill/", i), hdr, body(fmt.Sprint(i), size)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFollowHeaders_DeliversAllInOrderWithoutBodies(t *testing.T) {
	c := ready(t)
	fill(t, c, 1, 300, 2000)
	next := uint64(101)
	err := bus.FollowHeaders(t.Context(), c, run, 101, func(in []bus.HeaderMsg) error {
		for _, m := range in {
			if m.Seq != next || m.Size != 2000 || m.Skipped != 0 || m.Header.Get("N") != fmt.Sprint(m.Seq) || m.Time.IsZero() {
				return fmt.Errorf("got %+v, want sequence %d", m, next)
			}
			next++
		}
		if next == 301 {
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) {
		t.Error(err)
	}
}

func TestFollowHeaders_ReportsGapsAndNotThoseOfAFilter(t *testing.T) {
	c := ready(t)
	fill(t, c, 1, 10, 10)
	st, err := c.JS().Stream(t.Context(), rollouts)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{4, 5, 8} {
		if err := st.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	if err := bus.Purge(t.Context(), c, run, subjects.Rollouts, 3); err != nil {
		t.Fatal(err)
	}
	want := map[uint64]uint64{3: 2, 6: 2, 7: 0, 9: 1, 10: 0}
	for _, filter := range []string{"", run.RolloutSubject("p1")} {
		got := map[uint64]uint64{}
		err := bus.FollowStreamHeaders(t.Context(), c, rollouts, filter, 1, func(in []bus.HeaderMsg) error {
			for _, m := range in {
				got[m.Seq] = m.Skipped
				if m.Seq == 10 {
					return errDone
				}
			}
			return nil
		})
		if !errors.Is(err, errDone) || len(got) != len(want) {
			t.Fatalf("filter %q: %v %v", filter, got, err)
		}
		for seq, skipped := range got {
			if filter == "" && skipped != want[seq] || filter != "" && skipped != 0 {
				t.Errorf("filter %q, sequence %d: skipped %d", filter, seq, skipped)
			}
		}
	}
}

func TestFollow_LargeMessagesAreBoundedInBytesAndAllArrive(t *testing.T) {
	c := ready(t)
	const size = 7 << 20
	fill(t, c, 1, 12, size) // more than a pull of 32 MiB
	n := 0
	err := bus.Follow(t.Context(), c, rollouts, "", 1, func(m *bus.Msg) error {
		if n++; m.Seq != uint64(n) || len(m.Data) != size {
			return fmt.Errorf("message %d has %d bytes", m.Seq, len(m.Data))
		}
		if n == 12 {
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) {
		t.Error(err)
	}
}

func TestFollow_SurvivesTheLossOfItsConsumer(t *testing.T) {
	c := ready(t)
	fill(t, c, 1, 5, 10)
	var got []uint64
	err := bus.Follow(t.Context(), c, rollouts, "", 1, func(m *bus.Msg) error {
		got = append(got, m.Seq)
		switch m.Seq {
		case 5:
			dropConsumers(t, c)
			fill(t, c, 6, 5, 10)
		case 10:
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) || !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func dropConsumers(t *testing.T, c *bus.Conn) {
	t.Helper()
	st, err := c.JS().Stream(t.Context(), rollouts)
	if err != nil {
		t.Fatal(err)
	}
	for name := range st.ConsumerNames(t.Context()).Name() {
		if err := st.DeleteConsumer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFollow_AHandlerSlowerThanEveryTimeoutLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ready(t)
		fill(t, c, 1, 30, 10)
		next := uint64(1)
		err := bus.Follow(t.Context(), c, rollouts, "", 1, func(m *bus.Msg) error {
			if m.Seq != next {
				return fmt.Errorf("sequence %d, want %d", m.Seq, next)
			}
			if next++; next%10 == 0 {
				time.Sleep(5 * time.Minute) // the bubble's clock: consumer and pulls are gone meanwhile
			}
			if next == 31 {
				return errDone
			}
			return nil
		})
		if !errors.Is(err, errDone) {
			t.Error(err)
		}
	})
}

func TestFollow_AnIdleHourCostsNothingAndTheNextMessageArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ready(t)
		var writer sync.WaitGroup
		writer.Go(func() {
			time.Sleep(time.Hour)
			fill(t, c, 1, 1, 10)
		})
		start := time.Now()
		err := bus.Follow(t.Context(), c, rollouts, "", 1, func(m *bus.Msg) error { return errDone })
		if waited := time.Since(start); !errors.Is(err, errDone) || waited < time.Hour || waited > time.Hour+time.Second {
			t.Errorf("%v after %v", err, waited)
		}
		writer.Wait()
	})
}

func TestFollow_AStreamThatEndsBeforeTheOffsetIsRefused(t *testing.T) {
	c := ready(t)
	fill(t, c, 1, 3, 10)
	err := bus.Follow(t.Context(), c, rollouts, "", 5, func(*bus.Msg) error { return nil })
	if !errors.Is(err, bus.ErrIncompatible) {
		t.Errorf("got %v", err)
	}
}

func TestFollow_EndsWithItsContext(t *testing.T) {
	c := ready(t)
	fill(t, c, 1, 1, 10)
	ctx, cancel := context.WithCancel(t.Context())
	err := bus.Follow(ctx, c, rollouts, "", 1, func(*bus.Msg) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestFollowLatest_BeginsWithTheLastOfEachSubject(t *testing.T) {
	c := ready(t)
	for i := range 3 {
		for _, e := range []string{"a", "b"} {
			if _, err := bus.Send(t.Context(), c, run.AckSubject(e), fmt.Sprint(e, i), nil, []byte(fmt.Sprint(e, i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	err := bus.FollowLatest(t.Context(), c, run.StreamName(subjects.Weights), run.AckSubject("*"), func(m *bus.Msg) error {
		if got = append(got, string(m.Data)); len(got) == 2 {
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) || !slices.Equal(got, []string{"a2", "b2"}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestFollow_GoesOnAfterTheServerRestarts(t *testing.T) {
	s := natstest.NewRestartable(t)
	reader, writer := s.Connect(t), s.Connect(t)
	ensureRun(t, writer)
	fill(t, writer, 1, 20, 100)
	next := uint64(1)
	err := bus.Follow(t.Context(), reader, rollouts, "", 1, func(m *bus.Msg) error {
		if m.Seq != next || m.Skipped != 0 {
			return fmt.Errorf("sequence %d, want %d", m.Seq, next)
		}
		if next++; next == 11 {
			s.Restart(t)
			fill(t, writer, 21, 20, 100)
		}
		if next == 41 {
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) {
		t.Error(err)
	}
}
