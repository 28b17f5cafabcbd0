package app

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/headrace/headrace/subjects"
)

func TestViewTrajectory_IsJSONWhateverTheNumbersAre(t *testing.T) {
	tr := &subjects.Trajectory{Kind: subjects.Train, Group: "t1", Slot: 2, Producer: "second", Task: []byte("not JSON"), Reward: math.NaN(),
		Segments: []subjects.Segment{{Parent: -1, Tokens: []int32{1, 2}, Logprobs: []float32{float32(math.Inf(-1)), -0.5},
			LossMask: []subjects.Span{{Start: 0, End: 2}}, Versions: []subjects.VersionSpan{{Start: 0, End: 2, Version: 3}}}},
		Turns: []subjects.Turn{{Completion: subjects.Span{Start: 0, End: 2}, Finish: "stop"}}}
	data, err := json.Marshal(ViewTrajectory(tr))
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		ID       string
		Producer string
		Reward   *float64
		Segments []struct {
			Logprobs []*float64
			Versions []struct{ Version int }
		}
	}
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if back.ID != "t1/2/0" || back.Producer != "second" || back.Reward != nil {
		t.Errorf("%s", data)
	}
	if l := back.Segments[0].Logprobs; len(l) != 2 || l[0] != nil || *l[1] != -0.5 || back.Segments[0].Versions[0].Version != 3 {
		t.Errorf("%s", data)
	}
}
