package export

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const origin, copied = subjects.Run("origin"), subjects.Run("copied")

const call = "先算一下。\n<tool_call>\n{\"name\": \"calculator\", \"arguments\": {\"expression\": \"3+4 <é>\"}}\n</tool_call>"

// played is an episode of two turns with a tool, in German and Chinese.
func played(group subjects.GroupID, slot subjects.Slot, reward float64) *subjects.Trajectory {
	return &subjects.Trajectory{
		Kind: subjects.Train, Group: group, Slot: slot, Environment: "calculator", Task: []byte(`{ "frage": "Wie groß ist 3+4? 🙂" }`), Seed: -42,
		Producer: "p-a1", Engine: "eng-0", Tokenizer: "words-1f2e",
		Sampling: subjects.Sampling{Temperature: 1, TopP: 0.95, MaxNewTokens: 16, Seed: 1<<64 - 1},
		Status:   subjects.Succeeded, Reward: reward, Components: map[string]float64{"antwort/größe": reward, "format": 0.1},
		Started: 1_800_000_000_000_000_001, Finished: 1_800_000_001_500_000_002,
		Segments: []subjects.Segment{{
			Tokens:   []int32{1, 300, 70000, 4, 5, 6, 7, 8, 9, 2},
			Logprobs: []float32{-0.1, -1.25, -1e-9, 0},
			Versions: []subjects.VersionSpan{{Start: 4, End: 6, Version: 11}, {Start: 8, End: 10, Version: 12}},
			LossMask: []subjects.Span{{Start: 4, End: 6}, {Start: 8, End: 10}}, Parent: -1,
		}},
		Turns: []subjects.Turn{
			{Prompt: subjects.Span{Start: 0, End: 4}, Completion: subjects.Span{Start: 4, End: 6}, Queued: 1_800_000_000_000_000_010,
				Generated: 1_800_000_000_400_000_000, Stepped: 1_800_000_000_400_100_000, Finish: "stop"},
			{Prompt: subjects.Span{Start: 6, End: 8}, Completion: subjects.Span{Start: 8, End: 10}, Queued: 1_800_000_000_400_200_000,
				Generated: 1_800_000_001_000_000_000, Stepped: 1_800_000_001_000_100_000, Cached: 6, Finish: "length", Reward: reward},
		},
		Messages: []subjects.Message{{Role: "system", Content: "Rechne."}, {Role: "user", Content: "Wie groß ist 3+4? 🙂"},
			{Role: "assistant", Content: call}, {Role: "tool", Content: "7\u2028", Name: "calculator"}, {Role: "assistant", Content: "Answer: 7"}},
	}
}

// forked rewrote its history once; one sampled token is not trained on.
func forked(group subjects.GroupID, slot subjects.Slot, reward float64) *subjects.Trajectory {
	t := played(group, slot, reward)
	t.Status, t.Reason = subjects.Truncated, "turn limit 2"
	t.Segments = append(t.Segments, subjects.Segment{Tokens: []int32{1, 300, 70000, 4, 10, 11, 12}, Logprobs: []float32{-2.5, -0.125},
		Versions: []subjects.VersionSpan{{Start: 5, End: 7, Version: 12}}, LossMask: []subjects.Span{{Start: 6, End: 7}}, Parent: 0, Shared: 4})
	t.Turns[1].Segment, t.Turns[1].Prompt, t.Turns[1].Completion = 1, subjects.Span{Start: 4, End: 5}, subjects.Span{Start: 5, End: 7}
	return t
}

// broken failed before anything was sampled.
func broken(group subjects.GroupID, slot subjects.Slot) *subjects.Trajectory {
	return &subjects.Trajectory{Kind: subjects.Train, Group: group, Slot: slot, Environment: "calculator", Producer: "p-b2",
		Status: subjects.Failed, Reason: "engine eng-0: status 503 «überlastet»"}
}

// measured is of an evaluation.
func measured() *subjects.Trajectory {
	t := played("e2-0", 0, 1)
	t.Kind, t.Round, t.Sampling.Temperature = subjects.Eval, 2, 0
	return t
}

// makeRun makes the streams and the record of a run.
func makeRun(t testing.TB, c *bus.Conn, run subjects.Run, head json.RawMessage) {
	t.Helper()
	if err := bus.EnsureStreams(t.Context(), c, run, subjects.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	r := &subjects.RunRecord{V: 1, Run: run, Created: 1, Schema: subjects.SchemaVersion, Tokenizer: "words-1f2e", Recipe: json.RawMessage(`{"name":"größer <3"}`), Origin: head}
	if err := bus.CreateRun(t.Context(), c, r); err != nil {
		t.Fatal(err)
	}
}

// world is a bus with a run of two groups: t1 is trained in step 1, t2 had no
// variance; t3 is open, and there is an evaluation.
func world(t testing.TB) *bus.Conn {
	t.Helper()
	c := natstest.Connect(t, natstest.InProcess(t))
	makeRun(t, c, origin, nil)
	l := newLedger()
	put := func(tr *subjects.Trajectory, f *Fate) {
		t.Helper()
		p := bus.NewPublisher(c, bus.PublisherConfig{Run: origin, Producer: "p"})
		at, err := p.Publish(t.Context(), tr)
		if err == nil {
			err = p.Close(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		e := tr.Index()
		l.add(&e, at, f)
	}
	kept := Fate{Outcome: subjects.Kept, Opened: 10, Closed: 20, Unused: 1, Member: true, Step: 1}
	flat := Fate{Outcome: subjects.ZeroVariance, Opened: 11, Closed: 21, Member: true}
	for slot, tr := range []*subjects.Trajectory{played("t1", 0, 1), forked("t1", 1, 0.25), played("t1", 2, -1.0/3)} {
		f := kept
		if slot == 2 {
			tr.Messages[2].Content = "Answer: 8 «falsch»"
		}
		f.Advantage, f.Masked = 1.0/3-float64(slot), slot == 2
		put(tr, &f)
		if slot == 0 {
			put(broken("t1", 9), &Fate{Outcome: subjects.Kept, Opened: 10, Closed: 20, Unused: 1})
			put(played("t2", 0, 1), &flat)
		}
	}
	put(measured(), nil)
	put(played("t2", 1, 1), &flat)
	put(played("t3", 0, 1), nil)
	if err := l.write(t.Context(), c, origin, 30); err != nil {
		t.Fatal(err)
	}
	return c
}

// exported is a run in the lossless form.
func exported(t testing.TB, c *bus.Conn, run subjects.Run, f Filter) (string, Counts) {
	t.Helper()
	record, err := bus.LookupRun(t.Context(), c, run)
	if err != nil {
		t.Fatal(err)
	}
	h, err := HeaderOf(record)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := NewJSONL(&out, h)
	if err != nil {
		t.Fatal(err)
	}
	n, err := Read(t.Context(), c, run, f, w)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), n
}

// eventful adds what a trainer and an engine said, and an evaluation.
func eventful(t testing.TB, c *bus.Conn) {
	t.Helper()
	send := func(subject string, event any) {
		t.Helper()
		data, err := subjects.EncodeMessage(event)
		if err == nil {
			_, err = bus.Send(t.Context(), c, subject, "", nil, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	send(origin.WeightsSubject(subjects.EventResumed), &subjects.ResumedEvent{V: 1, Incarnation: 1, At: 5})
	send(origin.WeightsSubject(subjects.EventVersion), &subjects.VersionEvent{V: 1, Incarnation: 1, Dir: "/w/größer", Format: "safetensors", Files: []subjects.File{{Name: "a", Bytes: 1, SHA256: "00"}}, At: 6})
	send(origin.AckSubject("eng-0"), &subjects.AckEvent{V: 1, Engine: "eng-0", Incarnation: 1, LoadSeconds: 1.0 / 3, At: 7})
	send(origin.WeightsSubject(subjects.EventCommit), &subjects.CommitEvent{V: 1, Step: 1, Incarnation: 1, Tokens: 30, TrainSeconds: 0.1, WaitSeconds: 2,
		Metrics: map[string]float64{"loss": math.NaN(), "entropy": 1.0 / 3, "kl": math.Inf(1)}, At: 22})
	send(origin.WeightsSubject(subjects.EventCommit), &subjects.Gauges{V: 9}) // no commit
	send(origin.WeightsSubject(subjects.EventCheckpoint), &subjects.CheckpointEvent{V: 1, Step: 1, Incarnation: 1, Path: "/c/1", At: 23})
	send(origin.WeightsSubject("later"), &subjects.ResumedEvent{V: 1}) // of a version to come
	send(origin.AckSubject("eng-0"), &subjects.AckEvent{V: 1, Engine: "eng-0", Version: 1, Incarnation: 1, Error: "no room", At: 25})
	head, err := bus.StreamState(t.Context(), c, origin, subjects.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	data, err := subjects.EncodeMessage(&subjects.Entry{V: 1, At: 31, Evals: []subjects.EvalResult{{Round: 1, Tasks: 4, Sampled: 0.25, Greedy: 0.5, MaxVersion: 1}}})
	if err == nil {
		_, err = bus.Append(t.Context(), c, origin.LedgerSubject(), nil, data, head.LastSeq)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// into reads records, and nothing else.
func into(fn func(*Record) error) Into {
	return Into{Head: func(*Header, []byte) error { return nil }, Record: fn, Event: func(*Event) error { return nil }}
}

// importer reads a file into the run copied.
func importer(t testing.TB, c *bus.Conn, i **Importer, read func(Into) error) {
	t.Helper()
	err := read(Into{
		Head: func(h *Header, line []byte) error {
			if h.Run != origin {
				t.Errorf("header %+v", h)
			}
			makeRun(t, c, copied, line)
			*i = NewImporter(t.Context(), c, copied)
			return nil
		},
		Record: func(r *Record) error { return (*i).Write(r) },
		Event:  func(e *Event) error { return (*i).WriteEvent(e) },
	})
	if err != nil {
		t.Fatal(err)
	}
}
