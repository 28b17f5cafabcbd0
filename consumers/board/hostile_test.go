package board

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/subjects"
)

// whole checks what must be true of every state: it is JSON without a number
// that JSON cannot say, fractions are fractions, and the account adds up.
func checkState(t *testing.T, b *Board, now time.Time) {
	t.Helper()
	s := b.State(now)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("state: %v", err)
	}
	steps, series := b.Steps(0), b.Series(coarseSeconds)
	for _, v := range []any{steps, series, b.PointsSince(0)} {
		if _, err := json.Marshal(v); err != nil {
			t.Fatalf("columns: %v", err)
		}
	}
	if len(text) > 4<<20 {
		t.Fatalf("a state of %d bytes", len(text))
	}
	for _, x := range []Number{s.Trainer.Wait, s.Trainer.Recent.Wait, s.Trainer.Recent.Train} {
		if x.Known() && (x < 0 || x > 1+1e-9) {
			t.Fatalf("a fraction of %v in %+v", x, s.Trainer)
		}
	}
	for _, e := range s.Engines {
		for _, x := range []Number{e.Busy, e.CacheHit, e.RowFill, e.PausedFraction} {
			if x.Known() && (x < 0 || x > 1) {
				t.Fatalf("a fraction of %v in %+v", x, e)
			}
		}
	}
	if tr := &s.Trajectories; tr.Open < 0 || tr.Produced < 0 || tr.Trained < 0 {
		t.Fatalf("an account of %+v", tr)
	}
	if len(s.Producers) > shownProducers || len(s.Syncs) > mostSyncs || len(s.Roles) > mostRoles || len(s.Engines) > mostEngines || len(steps.Metrics) > mostMetrics {
		t.Fatalf("%d producers, %d syncs, %d roles, %d engines, %d metrics", len(s.Producers), len(s.Syncs), len(s.Roles), len(s.Engines), len(steps.Metrics))
	}
}

// FuzzFold: whatever lies in the streams, a board makes a state of it.
func FuzzFold(f *testing.F) {
	for _, v := range []any{
		&subjects.Entry{At: 1, Issued: []subjects.Issue{{Kind: subjects.Train, Count: -5}}, Verdicts: []subjects.Verdict{{Group: "t0", Outcome: subjects.Kept, Unused: -1, Members: make([]subjects.Member, 3)}},
			Batches: []subjects.Batch{{Step: 1 << 60, RewardMean: math.NaN()}, {Step: 1, Groups: []subjects.BatchGroup{{Group: "t0", Members: make([]subjects.Member, 3)}}}}, Evals: []subjects.EvalResult{{Sampled: math.Inf(1)}}, End: "x"},
		&subjects.CommitEvent{Step: 1, TrainSeconds: math.Inf(1), WaitSeconds: -1, At: math.MaxInt64, Metrics: map[string]float64{"loss": math.NaN()}},
		&subjects.Gauges{Role: "grouper", Instance: "g", Values: map[string]float64{"produced": 1e300, "trained": -1, "dropped_x": math.Inf(1)}},
		&subjects.Gauges{Role: "engine", Instance: "e", Values: map[string]float64{"device_seconds": 1e300, "running": math.NaN()}},
		&subjects.Gauges{Role: "produce", Instance: "p", Values: map[string]float64{"episodes_live": math.MaxFloat64, "": 5}},
		&subjects.SpanBatch{Role: "trainer", Instance: "rank0", At: 1, Offset: math.MinInt64, Names: []string{"start"}, Name: []int32{0}, Lane: []int32{0}, Start: []int64{1}, Duration: []int64{math.MaxInt64 - 2}},
		&subjects.Stall{Code: "x", Since: math.MinInt64}, &subjects.AckEvent{Engine: "e", LoadSeconds: math.NaN()}, &subjects.VersionEvent{Version: math.MinInt64}, &subjects.CheckpointEvent{}, &subjects.ResumedEvent{},
	} {
		body, err := subjects.EncodeMessage(v)
		if err != nil {
			f.Fatal(err)
		}
		for kind := range byte(kinds) {
			f.Add(kind, body, int64(1e9))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte, at int64) {
		b := New(Config{Run: "lake-1"})
		stream, subject := place(kind)
		for i := range int64(3) {
			b.Fold(stream, subject, body, time.Unix(0, at).Add(time.Duration(i)*time.Second))
		}
		checkState(t, b, time.Unix(0, at))
		checkState(t, b, second(0))
	})
}

const kinds = 10

// place is where a message of a kind lies.
func place(kind byte) (subjects.Stream, string) {
	run := subjects.Run("lake-1")
	switch kind % kinds {
	case 0:
		return subjects.Ledger, run.LedgerSubject()
	case 1:
		return subjects.Weights, run.WeightsSubject(subjects.EventCommit)
	case 2:
		return subjects.Weights, run.WeightsSubject(subjects.EventVersion)
	case 3:
		return subjects.Weights, run.WeightsSubject(subjects.EventResumed)
	case 4:
		return subjects.Weights, run.WeightsSubject(subjects.EventCheckpoint)
	case 5:
		return subjects.Weights, run.AckSubject("e0")
	case 6:
		return subjects.Telemetry, run.TelemetrySubject(subjects.WatchdogRole, "w")
	case 7:
		return subjects.Telemetry, run.SpanSubject("trainer", "rank0")
	case 8:
		return subjects.Telemetry, run.TelemetrySubject("engine", "e0")
	}
	return subjects.Telemetry, "nonsense"
}

// TestBoard_IsBoundedWhateverComes: names, steps, metrics and texts without end.
func TestBoard_IsBoundedWhateverComes(t *testing.T) {
	b := New(Config{Run: "lake-1", Started: began})
	before := heap()
	long := strings.Repeat("é\x1b", 1<<14)
	for i := range 5000 {
		now := second(float64(i) / 100)
		name := fmt.Sprintf("x%d", i)
		for _, role := range []string{"engine", "produce", "grouper", "bridge", "stranger"} {
			b.Report(&subjects.Gauges{Role: role, Instance: name, Text: long, Values: map[string]float64{"tokens_sampled": float64(i), "dropped_" + name: 1, "episodes_live": 1}}, now)
		}
		b.Ack(&subjects.AckEvent{Engine: name, Error: long})
		b.Commit(&subjects.CommitEvent{Step: subjects.Step(i * 37), Incarnation: i, Metrics: map[string]float64{name: 1, long: 2}, At: now.UnixNano()})
		b.Entry(&subjects.Entry{At: now.UnixNano(), Verdicts: []subjects.Verdict{{Group: subjects.GroupID(name), Outcome: subjects.Kept}, {Group: subjects.GroupID(long), Outcome: subjects.Kept}, {Outcome: subjects.Outcome(name)}},
			Evals: []subjects.EvalResult{{Round: subjects.Step(i)}}, EndText: long})
	}
	checkState(t, b, second(200))
	if grown := heap() - before; grown > 128<<20 {
		t.Errorf("holds %d MiB", grown>>20)
	}
	runtime.KeepAlive(b)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestBoard_ForgetsTheOldestStepsOfAVeryLongRun: and goes on counting.
func TestBoard_ForgetsTheOldestStepsOfAVeryLongRun(t *testing.T) {
	b := New(Config{})
	for i := int64(1); i <= mostSteps+10; i++ {
		b.Commit(&subjects.CommitEvent{Step: subjects.Step(i), At: second(float64(i)).UnixNano(), TrainSeconds: 1})
	}
	steps := b.Steps(0)
	n := steps.Len()
	if s := b.State(began); s.Step.Committed != mostSteps+10 || n > mostSteps || n < mostSteps/2 || steps.Step[n-1] != mostSteps+10 {
		t.Errorf("%d rows up to %d, committed %d", n, steps.Step[n-1], s.Step.Committed)
	}
	b.Commit(&subjects.CommitEvent{Step: 1}) // long forgotten
	b.Commit(&subjects.CommitEvent{Step: 1 << 40})
	if got := b.Steps(mostSteps + 10); got.Len() != 1 {
		t.Errorf("%d rows", got.Len())
	}
}

// TestBoard_ProducedIsTrainedDroppedAndOpen: by the ledger alone, in any order of
// verdicts and batches.
func TestBoard_ProducedIsTrainedDroppedAndOpen(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		b := New(Config{})
		var kept []subjects.Verdict
		members, step := int64(0), subjects.Step(0)
		for i := range 300 {
			now := second(float64(i))
			switch {
			case r.IntN(4) > 0 || len(kept) < 3:
				v := subjects.Verdict{Group: subjects.TrainGroup(uint64(i)), Outcome: [...]subjects.Outcome{subjects.Kept, subjects.Partial, subjects.ZeroVariance, subjects.Expired}[r.IntN(4)],
					Members: make([]subjects.Member, 1+r.IntN(8)), Unused: r.IntN(2), Opened: second(0).UnixNano(), Closed: now.UnixNano()}
				members += int64(len(v.Members) + v.Unused)
				if v.Outcome.Trained() {
					kept = append(kept, v)
				}
				b.Entry(&subjects.Entry{At: now.UnixNano(), Verdicts: []subjects.Verdict{v}})
			case r.IntN(3) == 0:
				v := kept[0]
				v.Outcome, v.Unused = subjects.Stale, 0
				kept = kept[1:]
				b.Entry(&subjects.Entry{At: now.UnixNano(), Verdicts: []subjects.Verdict{v}})
			default:
				step++
				m := subjects.Batch{Step: step}
				for _, v := range kept[:2] {
					m.Groups = append(m.Groups, subjects.BatchGroup{Group: v.Group, Members: v.Members})
				}
				kept = kept[2:]
				b.Entry(&subjects.Entry{At: now.UnixNano(), Batches: []subjects.Batch{m}})
			}
			s := b.State(now)
			dropped := int64(0)
			for _, n := range s.Trajectories.Dropped {
				dropped += n
			}
			if tr := s.Trajectories; tr.Produced != members || tr.Produced != tr.Trained+dropped+tr.Open {
				t.Fatalf("seed %d: %d members, %+v", seed, members, tr)
			}
		}
	}
}

// TestStepsSince_IsWhatChanged: new rows and changed ones, and nothing twice.
func TestStepsSince_IsWhatChanged(t *testing.T) {
	b := New(Config{})
	for i := range subjects.Step(5) {
		b.Entry(&subjects.Entry{At: 1, Batches: []subjects.Batch{{Step: i + 1}}})
	}
	all, mark := b.StepsSince(0)
	if all.Len() != 5 {
		t.Fatalf("%d rows", all.Len())
	}
	if none, again := b.StepsSince(mark); none.Len() != 0 || again != mark {
		t.Errorf("%d rows without a change", none.Len())
	}
	b.Commit(&subjects.CommitEvent{Step: 4})
	if rows, _ := b.StepsSince(mark); rows.Len() != 2 || rows.Step[0] != 4 || !rows.Committed[0] || rows.Committed[1] {
		t.Errorf("after the commit of step 4: %+v", rows)
	}
	for range 2 * mostChanges {
		b.Commit(&subjects.CommitEvent{Step: 5})
	}
	if rows, _ := b.StepsSince(mark); rows.Len() != 5 {
		t.Errorf("%d rows after more changes than are remembered", rows.Len())
	}
}

// TestSeries_HasAPointASecondAndMeansOfTen: and numbers them without a gap.
func TestSeries_HasAPointASecondAndMeansOfTen(t *testing.T) {
	b := New(Config{})
	const seconds = 3000
	for i := range seconds {
		b.Report(&subjects.Gauges{Role: "grouper", Instance: "g", Values: map[string]float64{"open_groups": float64(i % 10), "produced": float64(5 * i)}}, second(float64(i)+.3))
	}
	fine, coarse := b.Series(600), b.Series(43200)
	if len(fine.At) != 600 || fine.N != seconds-1 || fine.At[599]-fine.At[0] != 599 || fine.Trajectories[300] != 5 {
		t.Errorf("fine: %d points, the last numbered %d, %v trajectories a second", len(fine.At), fine.N, fine.Trajectories[300])
	}
	if n := len(coarse.At); n < seconds/10-1 || n > seconds/10+1 || coarse.OpenGroups[50] != 4.5 {
		t.Errorf("coarse: %d points, mean %v", n, coarse.OpenGroups[50])
	}
	points := b.PointsSince(fine.N - 3)
	if len(points) != 3 || points[0].N != fine.N-2 || points[2].N != fine.N || float64(points[2].At) != fine.At[599] {
		t.Errorf("points since: %+v", points)
	}
}
