package board

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/subjects"
)

var began = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func second(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }

func TestState_OfAnEmptyBoardIsWholeJSON(t *testing.T) {
	text, err := json.Marshal(New(Config{Run: "lake-1", Started: began}).State(second(5)))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"environments", "evals", "engines", "producers", "syncs", "advice", "roles"} {
		if !strings.Contains(string(text), `"`+list+`":[]`) {
			t.Errorf("%s is no empty list in %s", list, text)
		}
	}
	var back State
	if err := json.Unmarshal(text, &back); err != nil || back.Run != "lake-1" || back.Trainer.Wait.Known() {
		t.Errorf("reads back as %+v, %v", back, err)
	}
}

func TestState_CountsWhatTheLedgerSays(t *testing.T) {
	b := New(Config{Run: "lake-1", Started: began, MaxSteps: 10})
	members := []subjects.Member{{Length: 100, Reward: 1, MinVersion: 0}, {Length: 100, MinVersion: 1}}
	b.Entry(&subjects.Entry{At: second(1).UnixNano(), Issued: []subjects.Issue{{Kind: subjects.Train, Count: 3}},
		Verdicts: []subjects.Verdict{{Group: "t0", Outcome: subjects.Kept, Members: members}, {Group: "t1", Outcome: subjects.ZeroVariance, Members: members, Unused: 1}}})
	s := b.State(second(1))
	if s.Groups.Open != 1 || s.Groups.Kept != 1 || s.Trajectories.Produced != 5 || s.Trajectories.Open != 2 {
		t.Errorf("before the batch: %+v, %+v", s.Groups, s.Trajectories)
	}
	b.Entry(&subjects.Entry{At: second(2).UnixNano(), Batches: []subjects.Batch{{Step: 1, Rows: 2, Tokens: 50, RewardMean: .5,
		Groups: []subjects.BatchGroup{{Group: "t0", Members: members}}}}})
	s = b.State(second(2))
	if s.Step.Cut != 1 || s.Trajectories.Trained != 2 || s.Trajectories.Dropped["zero_variance"] != 2 || s.Trajectories.Open != 0 {
		t.Errorf("after it: %+v, %+v", s.Step, s.Trajectories)
	}
	rows := b.Steps(1)
	if rows.Len() != 1 || rows.ZeroVariance[0] != 1 || rows.Reward[0] != .5 || rows.RewardStd[0] != .5 || rows.Committed[0] {
		t.Errorf("steps: %+v", rows)
	}
}
