package show_test

import (
	"testing"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

// Letters that lie far apart are named by asking for their messages, many by
// reading all headers in between: the names are the same.
func TestNameProducers_NearAndFar(t *testing.T) {
	c := natstest.Connect(t, natstest.InProcess(t))
	if _, err := synth.Write(t.Context(), c, synth.Options{Run: testRun, Trajectories: 1500}); err != nil {
		t.Fatal(err)
	}
	state, err := bus.StreamState(t.Context(), c, testRun, subjects.Rollouts)
	if err != nil {
		t.Fatal(err)
	}
	letter := func(seq uint64) show.Filed {
		return show.Filed{Letter: bus.Letter{DeadLetter: bus.DeadLetter{Source: testRun.StreamName(subjects.Rollouts), Sequence: seq}}}
	}
	var near []show.Filed
	for seq := range state.LastSeq + 5 {
		near = append(near, letter(seq))
	}
	far := []show.Filed{letter(2), letter(state.LastSeq), letter(2), letter(0)}
	for _, list := range [][]show.Filed{near, far} {
		if err := show.NameProducers(t.Context(), c, testRun, list); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range far {
		if want := near[f.Sequence].Producer; f.Producer != want || f.Sequence > 0 && want == "" {
			t.Errorf("message %d is by %q, and by %q", f.Sequence, f.Producer, want)
		}
	}
}
