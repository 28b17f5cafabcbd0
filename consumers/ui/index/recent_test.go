package index

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

// The end of a long log is shown before the whole is read, and is what the whole
// says of it.
func TestPeek_ShowsWhatIsNewest(t *testing.T) {
	c := natstest.Connect(t, natstest.InProcess(t))
	if _, err := synth.Write(t.Context(), c, synth.Options{Run: madeRun, Trajectories: 2000}); err != nil {
		t.Fatal(err)
	}
	x := New(Config{Run: madeRun})
	rollouts, err := x.look(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := bus.StreamState(t.Context(), c, madeRun, subjects.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.peek(t.Context(), c, rollouts.LastSeq, ledger.LastSeq, 150, 80); err != nil {
		t.Fatal(err)
	}
	q := &Query{Outcomes: []string{"kept"}, Limit: 10}
	list := func() *Page {
		p, err := x.List(t.Context(), q, nil, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	early := list()
	if len(early.Groups) != 10 || early.Total != nil || early.Indexed.Trajectories >= early.Indexed.Of {
		t.Fatalf("early: %d groups, total %v, %+v", len(early.Groups), early.Total, early.Indexed)
	}
	if _, members, ok := x.Group(early.Groups[0].Group); !ok || len(members) == 0 {
		t.Error("a group that is shown is not found")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := x.Follow(ctx, c, func() {}, stop); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	late := list()
	for i := range early.Groups {
		a, b := early.Groups[i], late.Groups[i]
		if a.Group != b.Group || a.Step != b.Step || a.RewardMean != b.RewardMean || a.Tokens != b.Tokens {
			t.Errorf("place %d: early %+v, late %+v", i, a, b)
		}
	}
	if late.Total == nil || x.latest() != nil {
		t.Error("the whole is not there")
	}
}
