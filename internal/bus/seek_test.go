package bus_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

func TestSeqAt_FindsTheFirstMessageOfATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const run = subjects.Run("seek")
		c := natstest.Connect(t, natstest.InProcess(t))
		if err := bus.EnsureStreams(t.Context(), c, run, subjects.StreamOptions{}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for i := range 100 {
			if i > 0 {
				time.Sleep(time.Minute)
			}
			subject := run.WeightsSubject([]subjects.WeightsEvent{subjects.EventCommit, subjects.EventVersion}[i%2])
			if _, err := bus.Send(t.Context(), c, subject, "", nil, []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		for after, want := range map[time.Duration]uint64{-time.Hour: 1, 30 * time.Second: 2, 9*time.Minute + 30*time.Second: 11, 98*time.Minute + time.Second: 100, 24 * time.Hour: 101} {
			if got, err := bus.SeqAt(t.Context(), c, run, subjects.Weights, begun.Add(after)); got != want || err != nil {
				t.Errorf("%v after the first: %d, %v; want %d", after, got, err, want)
			}
		}
		if got, err := bus.SeqAt(t.Context(), c, run, subjects.Ledger, begun); got != 1 || err != nil {
			t.Errorf("in an empty stream: %d, %v", got, err)
		}
		m, err := bus.Next(t.Context(), c, run.StreamName(subjects.Weights), run.WeightsSubject(subjects.EventVersion), 51)
		if err != nil || m.Seq != 52 {
			t.Errorf("the next of a subject: %+v, %v", m, err)
		}
		if _, err := bus.Next(t.Context(), c, run.StreamName(subjects.Weights), run.WeightsSubject(subjects.EventVersion), 101); !errors.Is(err, bus.ErrNotFound) {
			t.Errorf("beyond the last: %v", err)
		}
	})
}
