package app

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/subjects"
)

// stoppedRun is the folder of a run of two steps that nobody plays.
func stoppedRun(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	server, err := bus.StartServer(t.Context(), bus.ServerOptions{StoreDir: runDir(filepath.Join(root, string(testRun))).store(), Port: -1, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	conn, err := bus.Connect(t.Context(), server.Options())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // a test
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := recipe.Parse("lake.yaml", []byte(lonelyRecipe))
	must(err)
	must(bus.EnsureStreams(t.Context(), conn, testRun, subjects.StreamOptions{}))
	must(createRecord(t.Context(), conn, testRun, r))
	for step := subjects.Step(1); step <= 2; step++ {
		entry, err := subjects.EncodeMessage(&subjects.Entry{Batches: []subjects.Batch{{Step: step, RewardMean: .5}}})
		must(err)
		commit, err := subjects.EncodeMessage(&subjects.CommitEvent{Step: step, Incarnation: 1, TrainSeconds: 1, WaitSeconds: 1, At: int64(step) * 4e9})
		must(err)
		_, err = bus.Send(t.Context(), conn, testRun.LedgerSubject(), "", nil, entry)
		must(err)
		_, err = bus.Send(t.Context(), conn, testRun.WeightsSubject(subjects.EventCommit), "", nil, commit)
		must(err)
	}
	return root
}

// TestTop_OfAStoppedRunShowsItsEndAndEnds: live and once, as text and as JSON;
// and what `headrace show` says of the trainer's wait is the same.
func TestTop_OfAStoppedRunShowsItsEndAndEnds(t *testing.T) {
	source := Source{Root: stoppedRun(t), Log: zerolog.Nop()}
	for _, once := range []bool{false, true} {
		var text, lines bytes.Buffer
		if err := Top(limited(t), source, testRun, TopOptions{Out: &text, Once: once}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "2/8") || !strings.Contains(text.String(), "nobody is heard of") {
			t.Errorf("shows %s", text.String())
		}
		if err := Top(limited(t), source, testRun, TopOptions{Out: &lines, Once: once, JSON: true}); err != nil {
			t.Fatal(err)
		}
		var s board.State
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("%v in %s", err, lines.String())
		}
		sum, err := ShowRun(limited(t), source, testRun)
		if err != nil {
			t.Fatal(err)
		}
		if s.Step.Committed != 2 || s.Trainer.Wait != .25 || float64(s.Trainer.Wait) != sum.TrainerWait {
			t.Errorf("at step %d, top says that the trainer waits %v, show %v", s.Step.Committed, s.Trainer.Wait, sum.TrainerWait)
		}
	}
	if err := Top(limited(t), source, "nobody", TopOptions{Out: &bytes.Buffer{}, Once: true}); err == nil || !strings.Contains(err.Error(), "no run nobody") {
		t.Errorf("of a run that is not there: %v", err)
	}
}

func TestStarting_IsARunOfWhichNobodyWasHeardYet(t *testing.T) {
	for want, states := range map[bool][]board.State{
		true: {{Started: 100, Now: 105}},
		false: {{Started: 100, Now: 100 + startSeconds}, {Started: 100, Now: 105, Step: board.StepState{Cut: 1}}, {Started: 100, Now: 105, End: subjects.EndComplete},
			{Started: 100, Now: 105, Roles: []board.Role{{Role: "grouper"}}}, {Started: board.Unknown(), Now: 105}},
	} {
		for i := range states {
			if starting(&states[i]) != want {
				t.Errorf("%+v: want %v", states[i], want)
			}
		}
	}
}
