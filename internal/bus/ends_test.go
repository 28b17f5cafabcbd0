package bus_test

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

func TestAwaitRunEnd_HearsTheReasonOnceAndForAll(t *testing.T) {
	c := ready(t)
	record := &subjects.RunRecord{V: 1, Run: run, Schema: subjects.SchemaVersion, Recipe: []byte(`{}`), Hash: "h"}
	if err := bus.CreateRun(t.Context(), c, record); err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 1)
	go func() {
		reason, err := bus.AwaitRunEnd(t.Context(), c, run)
		if err != nil {
			t.Error(err)
		}
		heard <- reason
	}()
	for _, reason := range []string{"complete", "cancelled"} { // the second comes too late
		if err := bus.EndRun(t.Context(), c, run, reason); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-heard; got != "complete" {
		t.Errorf("heard %q", got)
	}
	if r, err := bus.LookupRun(t.Context(), c, run); err != nil || r.Ended != "complete" || r.Hash != "h" {
		t.Errorf("record %+v, %v", r, err)
	}
}

func TestAwaitRunEnd_ARemovedRunIsAnError(t *testing.T) {
	c := ready(t)
	if err := bus.CreateRun(t.Context(), c, &subjects.RunRecord{Run: run, Schema: subjects.SchemaVersion}); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := bus.AwaitRunEnd(t.Context(), c, run)
		failed <- err
	}()
	if err := bus.DeleteRun(t.Context(), c, run); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
}

func TestLeaseKey_IsMadeOnceAndGoesWithTheRun(t *testing.T) {
	c := ready(t)
	first, err := bus.LeaseKey(t.Context(), c, run)
	if err != nil || len(first) != 32 {
		t.Fatalf("key of %d bytes, %v", len(first), err)
	}
	ensureRun(t, c)
	if again, err := bus.LeaseKey(t.Context(), c, run); err != nil || string(again) != string(first) {
		t.Errorf("another key after the second start, %v", err)
	}
	if err := bus.DeleteRun(t.Context(), c, run); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.LeaseKey(t.Context(), c, run); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("after the run: %v", err)
	}
}
