package index

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

// What is read of one group is what the whole index says of it, wherever it lies.
func TestAround_KnowsAGroupAsTheWholeDoes(t *testing.T) {
	c := natstest.Connect(t, natstest.InProcess(t))
	if _, err := synth.Write(t.Context(), c, synth.Options{Run: madeRun, Trajectories: 1500}); err != nil {
		t.Fatal(err)
	}
	whole, x := New(Config{Run: madeRun}), New(Config{Run: madeRun, Environments: 2})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := whole.Follow(ctx, c, func() {}, stop); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i := 0; i < len(whole.groups); i += 9 {
		id := whole.groups[i].id
		want, members, _ := whole.Group(id)
		y := x.Around(t.Context(), c, id)
		if y == nil {
			t.Errorf("%s (%s) is not found", id, want.Outcome)
			continue
		}
		got, around, _ := y.Group(id)
		seen[got.Outcome]++
		if got.Outcome != want.Outcome || got.Step != want.Step || got.Opened != want.Opened || got.Tokens != want.Tokens || used(around) != used(members) {
			t.Errorf("%s: around %+v, the whole %+v", id, got, want)
		}
		if i%2 == 0 && len(members) > 0 {
			name := members[0].id(id)
			a, _ := y.Trajectory(name)
			if b, _ := whole.Trajectory(name); a.Address != b.Address || a.Used != b.Used || a.Producer != b.Producer {
				t.Errorf("%s: around %+v, the whole %+v", name, a, b)
			}
		}
	}
	for _, o := range []subjects.Outcome{"evaluated", subjects.Kept, subjects.ZeroVariance} {
		if seen[string(o)] == 0 {
			t.Errorf("no %s group was looked at: %v", o, seen)
		}
	}
	for _, id := range []string{"t999999", "e99999-0", "theirs", "t1/0/0"} {
		if x.Around(t.Context(), c, id) != nil {
			t.Errorf("%s is found", id)
		}
	}
}

func used(list []Member) (sum float64) {
	for i := range list {
		if m := &list[i]; m.Member && !math.IsNaN(m.Advantage) {
			sum += m.Advantage * float64(m.Seq)
		}
	}
	return sum
}

// Who asks is not kept waiting by the log, and the log not for ever by those who ask.
func TestAhead_TheLogStandsBackAndTakesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := New(Config{Run: madeRun})
		stood := func() time.Duration {
			began := time.Now()
			x.front.standBack(t.Context())
			return time.Since(began)
		}
		if d := stood(); d != 0 {
			t.Errorf("%v though nobody asks", d)
		}
		leave, leaveToo := x.Ahead(), x.Ahead()
		time.AfterFunc(time.Millisecond, leave)
		time.AfterFunc(2*time.Millisecond, leaveToo)
		if d := stood(); d != 2*time.Millisecond {
			t.Errorf("%v until the last left", d)
		}
		defer x.Ahead()()
		if d := stood(); d != longestWait {
			t.Errorf("%v for one who stays", d)
		}
		for range 3 {
			if d := stood(); d != 0 {
				t.Errorf("%v in the log's own turn", d)
			}
		}
		time.Sleep(longestWait)
		if d := stood(); d != longestWait {
			t.Errorf("%v after the log's turn", d)
		}
	})
}
