package trace

import (
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const (
	run = subjects.Run("lake-1")
	t0  = int64(1_750_000_000_000_000_000)
	ms  = int64(1e6)
	sec = int64(1e9)
)

// world is a run of two steps on a real server, its times made up.
type world struct {
	testing.TB
	conn     *bus.Conn
	external bool // nobody hands tasks out
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, conn: natstest.Connect(t, natstest.InProcess(t))}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{}))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) send(subject, id string, message any) {
	w.Helper()
	data, err := subjects.EncodeMessage(message)
	w.must(err)
	_, err = bus.Send(w.Context(), w.conn, subject, id, nil, data)
	w.must(err)
}

// played is an episode of two turns that began at start.
func played(producer string, g subjects.GroupID, slot subjects.Slot, start int64, status subjects.Status) *subjects.Trajectory {
	t := &subjects.Trajectory{Kind: subjects.Train, Group: g, Slot: slot, Environment: "lake", Producer: producer, Engine: "eng-0",
		Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 8}, Status: status, Reward: float64(slot), Started: start, Finished: start + 900*ms,
		Segments: []subjects.Segment{{Tokens: []int32{1, 2, 3, 4}, Logprobs: []float32{-1, -1}, Versions: []subjects.VersionSpan{{Start: 1, End: 2}, {Start: 3, End: 4}},
			LossMask: []subjects.Span{{Start: 1, End: 2}, {Start: 3, End: 4}}, Parent: -1}},
		Turns: []subjects.Turn{
			{Prompt: subjects.Span{Start: 0, End: 1}, Completion: subjects.Span{Start: 1, End: 2}, Queued: start + 10*ms, Generated: start + 300*ms, Stepped: start + 400*ms, Finish: "stop"},
			{Prompt: subjects.Span{Start: 2, End: 3}, Completion: subjects.Span{Start: 3, End: 4}, Queued: start + 410*ms, Generated: start + 800*ms, Stepped: start + 890*ms, Finish: "stop", Reward: 1}}}
	if status == subjects.Failed {
		t.Reason, t.Reward, t.Turns[1] = "engine gone", 0, subjects.Turn{Queued: start + 410*ms}
	}
	return t
}

// play publishes an episode.
func (w *world) play(producer string, g subjects.GroupID, slot subjects.Slot, start int64, status subjects.Status) subjects.Member {
	w.Helper()
	t := played(producer, g, slot, start, status)
	p := bus.NewPublisher(w.conn, bus.PublisherConfig{Run: run, Producer: producer})
	at, err := p.Publish(w.Context(), t)
	w.must(err)
	w.must(p.Close(w.Context()))
	return subjects.Member{Slot: slot, Seq: at.Seq, Index: at.Index, Status: status, Reward: t.Reward}
}

// story is what the golden trace shows: group t0 trained in step 1, t1 of equal
// rewards, t2 trained in step 2, one failed episode, a sync, a stall, spans.
func (w *world) story() *world {
	w.Helper()
	var groups [3][]subjects.Member
	for g := range groups {
		id, start := subjects.TrainGroup(uint64(g)), t0+int64(g)*1500*ms
		for s := range subjects.Slot(3) {
			producer := []string{"p1", "p2"}[s%2]
			groups[g] = append(groups[g], w.play(producer, id, s, start+100*ms+int64(s)*200*ms, subjects.Succeeded))
		}
	}
	w.play("p2", "t1", 3, t0+1600*ms, subjects.Failed)
	verdict := func(g int, o subjects.Outcome) subjects.Verdict {
		opened := t0 + int64(g)*1500*ms
		return subjects.Verdict{Group: subjects.TrainGroup(uint64(g)), Outcome: o, Members: groups[g], Opened: opened, Closed: opened + 1450*ms}
	}
	batch := func(step subjects.Step, g int) []subjects.Batch {
		return []subjects.Batch{{Step: step, Groups: []subjects.BatchGroup{{Group: subjects.TrainGroup(uint64(g)), Environment: "lake", Members: groups[g]}}, Rows: 3, Tokens: 12, Longest: 4}}
	}
	ledger := func(id string, e *subjects.Entry) { e.V, e.Writer = 1, "g1"; w.send(run.LedgerSubject(), id, e) }
	ledger("1", &subjects.Entry{At: t0 + 1450*ms, Verdicts: []subjects.Verdict{verdict(0, subjects.Kept)}, Batches: batch(1, 0)})
	ledger("2", &subjects.Entry{At: t0 + 4450*ms, Verdicts: []subjects.Verdict{verdict(1, subjects.ZeroVariance), verdict(2, subjects.Kept)}, Batches: batch(2, 2)})
	ledger("3", &subjects.Entry{At: t0 + 6*sec, End: subjects.EndComplete})
	commit := func(step subjects.Step, at int64, wait, train float64) {
		w.send(run.WeightsSubject(subjects.EventCommit), "c"+string(rune('0'+step)), &subjects.CommitEvent{V: 1, Step: step, Incarnation: 1, Tokens: 12,
			WaitSeconds: wait, TrainSeconds: train, Metrics: map[string]float64{"loss": 0.5}, At: at})
	}
	commit(1, t0+2500*ms, 1.5, 1)
	w.send(run.WeightsSubject(subjects.EventVersion), "v1", &subjects.VersionEvent{V: 1, Version: 1, Step: 1, Incarnation: 1, At: t0 + 2550*ms})
	w.send(run.AckSubject("eng-0"), "a1", &subjects.AckEvent{V: 1, Engine: "eng-0", Version: 1, Incarnation: 1, PauseSeconds: 0.05, LoadSeconds: 0.2, VerifySeconds: 0.1, ResumeSeconds: 0.01, At: t0 + 3*sec})
	commit(2, t0+5400*ms, 2, 0.9)
	w.send(run.WeightsSubject(subjects.EventCheckpoint), "k2", &subjects.CheckpointEvent{V: 1, Step: 2, Incarnation: 1, At: t0 + 5450*ms})
	for i := range int64(3) {
		w.send(run.TelemetrySubject("produce", "p1"), "g"+string(rune('0'+i)), &subjects.Gauges{V: 1, Role: "produce", Instance: "p1", At: t0 + i*sec, Values: map[string]float64{"live_episodes": float64(2 * i)}})
		w.send(run.TelemetrySubject(subjects.WatchdogRole, "g1"), "s"+string(rune('0'+i)), &subjects.Stall{V: 1, Stage: subjects.StageProducer, Code: subjects.SlotsLeased, Text: "nothing comes", Since: t0 + sec, At: t0 + (2+i)*sec})
	}
	spans := &subjects.SpanBatch{V: 1, Role: "bridge", Instance: "b1", At: t0 + 2*sec, Offset: ms}
	spans.SetSpans([]subjects.TimeSpan{{Name: "write rows", Start: t0 + 1510*ms, Duration: 20 * ms},
		{Name: "feed", Start: t0 + 1500*ms, Duration: 50 * ms, Flow: subjects.FlowID("t0", 0, 0), Args: []subjects.TimeSpanArg{{Key: "rows", Value: 3}}}})
	w.send(run.SpanSubject("bridge", "b1"), "sp", spans)
	return w.tell()
}

// tell adds what roles recorded of the story: step 2 of the trainer, the sync of
// version 1, and what the producer knows of t0/0/0 that its turns do not say.
func (w *world) tell() *world {
	w.Helper()
	report := func(role, instance string, spans ...subjects.TimeSpan) {
		b := &subjects.SpanBatch{V: 1, Role: role, Instance: instance, At: t0 + 6*sec, Uncertainty: ms / 10}
		b.SetSpans(spans)
		w.send(run.SpanSubject(role, instance), role, b)
	}
	span := func(name string, lane int32, from, to int64, args ...subjects.TimeSpanArg) subjects.TimeSpan {
		return subjects.TimeSpan{Name: name, Lane: lane, Start: t0 + from*ms, Duration: (to - from) * ms, Args: args}
	}
	step, version := subjects.TimeSpanArg{Key: "step", Value: 2}, subjects.TimeSpanArg{Key: "version", Value: 1}
	report("trainer", "rank0", span("publish weights", 0, 2510, 2550, version), span("wait for batch", 0, 2550, 4480, step), span("prepare", 0, 4480, 4500, step),
		span("compile", 1, 4600, 4900), span("train step", 0, 4500, 5000, step), span("checkpoint", 0, 5000, 5040, step), span("train step", 0, 5040, 5400, step))
	report("engine", "eng-0", span("batch", 0, 120, 200, subjects.TimeSpanArg{Key: "rows", Value: 2}), span("pause", 1, 2640, 2690, version),
		span("load", 1, 2690, 2890, version), span("verify", 1, 2890, 2990, version), span("resume", 1, 2990, 3000, version))
	own := []subjects.TimeSpan{span("queue", 0, 110, 130), span("parse", 0, 400, 405), span("publish", 0, 1000, 1020), span("acknowledge", 0, 1020, 1025)}
	for i := range own {
		own[i].Flow = subjects.FlowID("t0", 0, 0)
	}
	report("produce", "p1", own...)
	report("grouper", "g1", span("fold", 0, 1000, 1100, subjects.TimeSpanArg{Key: "messages", Value: 3}), span("decide", 0, 1440, 1450))
	return w
}
