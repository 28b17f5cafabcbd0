package board

import (
	"fmt"
	"testing"

	"github.com/headrace/headrace/subjects"
)

const (
	benchGroups = 8
	benchSize   = 8
)

// benchEntry is a step's ledger entry: verdicts on its groups, and its batch.
func benchEntry(step int) *subjects.Entry {
	e := &subjects.Entry{At: second(float64(step)).UnixNano(), Issued: []subjects.Issue{{Kind: subjects.Train, Count: benchGroups}}}
	b := subjects.Batch{Step: subjects.Step(step), Rows: benchGroups * benchSize, Tokens: 8000, RewardMean: .5, StalenessMean: 1}
	for g := range benchGroups {
		id := subjects.TrainGroup(uint64(step*benchGroups + g))
		members := make([]subjects.Member, benchSize)
		for i := range members {
			members[i] = subjects.Member{Slot: subjects.Slot(i), Seq: uint64(step), Length: 4000, Status: subjects.Succeeded, Reward: float64(i % 2), Tokens: 1000, MinVersion: subjects.PolicyVersion(step - 2)}
		}
		e.Verdicts = append(e.Verdicts, subjects.Verdict{Group: id, Outcome: subjects.Kept, Members: members, Opened: second(float64(step) - 9).UnixNano(), Closed: e.At})
		b.Groups = append(b.Groups, subjects.BatchGroup{Group: id, Environment: "lake", Members: members})
	}
	e.Batches = []subjects.Batch{b}
	return e
}

// BenchmarkFold_LedgerEntry is a step of 64 trajectories: its verdicts and its
// batch, decoded and folded in.
func BenchmarkFold_LedgerEntry(b *testing.B) {
	body, err := subjects.EncodeMessage(benchEntry(1))
	if err != nil {
		b.Fatal(err)
	}
	board := New(Config{Run: "lake-1"})
	subject := subjects.Run("lake-1").LedgerSubject()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		board.Fold(subjects.Ledger, subject, body, second(1))
	}
}

// BenchmarkFold_Gauges is a producer's report, one of a thousand producers.
func BenchmarkFold_Gauges(b *testing.B) {
	bodies := make([][]byte, 1000)
	run := subjects.Run("lake-1")
	for i := range bodies {
		values := map[string]float64{"slots": 192, "episodes_live": 100, "leases_held": 110, "engine_wait_seconds": 100, "env_wait_seconds": 10, "published": 1000}
		for k := range 30 {
			values[fmt.Sprintf("other_%d", k)] = float64(k)
		}
		var err error
		if bodies[i], err = subjects.EncodeMessage(&subjects.Gauges{Role: "produce", Instance: fmt.Sprintf("p%d", i), Values: values}); err != nil {
			b.Fatal(err)
		}
	}
	board, n := New(Config{Run: run}), 0
	subject := run.TelemetrySubject("produce", "p")
	for b.Loop() {
		board.Fold(subjects.Telemetry, subject, bodies[n%len(bodies)], second(float64(n)/1000))
		n++
	}
}

// millionBoard is a run of a million trajectories, in 15625 steps, of 1000 producers.
func millionBoard() *Board {
	board := New(Config{Run: "lake-1", Started: began})
	for step := 1; step <= 1e6/benchGroups/benchSize; step++ {
		board.Entry(benchEntry(step))
		board.Commit(&subjects.CommitEvent{Step: subjects.Step(step), Incarnation: 1, Tokens: 8000, TrainSeconds: .7, WaitSeconds: .2, At: second(float64(step)).UnixNano(),
			Metrics: map[string]float64{"loss": .1, "kl": .01, "entropy": 1, "grad_norm": .5}})
		board.Report(&subjects.Gauges{Role: "produce", Instance: fmt.Sprintf("p%d", step%1000), Values: map[string]float64{"slots": 8, "episodes_live": 8}}, second(float64(step)))
		board.Report(&subjects.Gauges{Role: "grouper", Instance: "g", Values: map[string]float64{"produced": float64(64 * step), "open_groups": 8}}, second(float64(step)))
	}
	return board
}

// BenchmarkState_OfAMillionTrajectories is what a page costs each second.
func BenchmarkState_OfAMillionTrajectories(b *testing.B) {
	board := millionBoard()
	for b.Loop() {
		if s := board.State(second(15625)); s.Step.Committed != 15625 {
			b.Fatal(s.Step)
		}
	}
}

// BenchmarkSteps_OfAMillionTrajectories is what a page costs when it is opened.
func BenchmarkSteps_OfAMillionTrajectories(b *testing.B) {
	board := millionBoard()
	for b.Loop() {
		if s := board.Steps(0); s.Len() != 15625 {
			b.Fatal(s.Len())
		}
	}
}
