package subjects_test

import (
	"bytes"
	"fmt"

	"github.com/headrace/headrace/subjects"
)

// A producer encodes one finished episode and prints its index entry; a reader
// takes it apart again.
func Example() {
	t := &subjects.Trajectory{
		Kind: subjects.Train, Group: "t0", Environment: "frozenlake", Status: subjects.Succeeded, Reward: 1,
		Sampling: subjects.Sampling{Temperature: 1},
		Segments: []subjects.Segment{{
			Tokens:   []int32{1, 14, 15, 7, 2}, // three of the prompt, two sampled
			Logprobs: []float32{-0.5, -0.25},
			Versions: []subjects.VersionSpan{{Start: 3, End: 5, Version: 0}},
			LossMask: []subjects.Span{{Start: 3, End: 5}},
			Parent:   -1,
		}},
	}
	if err := t.Check(100); err != nil { // before it is published
		fmt.Println(err)
	}
	var body bytes.Buffer
	if err := subjects.EncodeTrajectory(&body, t); err != nil {
		fmt.Println(err)
	}
	entry := t.Index()
	entry.Length, entry.Checksum = body.Len(), subjects.Checksum(body.Bytes())
	fmt.Println(entry.String())

	view, err := subjects.ViewBody(body.Bytes()) // what the trainer's side does: no copy
	fmt.Println(view.Segments[0].Len(), view.Check(100), err)

	back, err := subjects.DecodeTrajectory(body.Bytes()) // what a viewer does: everything
	fmt.Println(back.ID(), back.Segments[0].Tokens, back.Segments[0].Logprobs, err)
	// Output:
	// 1 train t0 0 0 0 succeeded 1 1 5 5 2 0 0 0 frozenlake 0 316 969592f3
	// 5 <nil> <nil>
	// t0/0/0 [1 14 15 7 2] [-0.5 -0.25] <nil>
}
