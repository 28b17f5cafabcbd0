package otel_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/consumers/otel"
	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// drawn is a trace as a tree of names and times, in seconds since it began.
func drawn(spans []*tracepb.Span) string {
	var b strings.Builder
	var below func(parent []byte, depth int)
	below = func(parent []byte, depth int) {
		for _, s := range spans {
			if string(s.ParentSpanId) == string(parent) {
				fmt.Fprintf(&b, "%s%s %v-%v %s\n", strings.Repeat("  ", depth), s.Name, (int64(s.StartTimeUnixNano)-at)/1e9, (int64(s.EndTimeUnixNano)-at)/1e9, strings.TrimPrefix(s.Status.GetCode().String(), "STATUS_CODE_"))
				below(s.SpanId, depth+1)
			}
		}
	}
	below(nil, 0)
	return b.String()
}

func TestSpans_AnEpisodeIsAnAgentWithCallsAndTools(t *testing.T) {
	spans := otel.Spans(run, episode(0), subjects.Address{Seq: 12, Index: 3}, false)
	const want = `invoke_agent calc 0-9 UNSET
  chat lake 1-2 UNSET
  execute_tool add 2-4 UNSET
  execute_tool show 2-4 UNSET
  chat lake 4-5 UNSET
  environment step 5-6 UNSET
  chat lake 6-6 ERROR
`
	if got := drawn(spans); got != want {
		t.Errorf("drawn as\n%swant\n%s", got, want)
	}
	for i, want := range []map[string]any{
		0: {"gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "headrace", "gen_ai.agent.name": "calc", "gen_ai.conversation.id": "t0/1/0", "gen_ai.request.seed": int64(7),
			"gen_ai.usage.input_tokens": int64(8), "gen_ai.usage.output_tokens": int64(3), "headrace.status": "truncated", "headrace.rollouts.sequence": int64(12), "headrace.policy_version.max": int64(4)},
		1: {"gen_ai.operation.name": "chat", "gen_ai.request.model": "lake", "gen_ai.response.model": "lake@3", "gen_ai.response.finish_reasons": "tool_calls", "gen_ai.request.top_k": int64(20),
			"gen_ai.usage.input_tokens": int64(2), "gen_ai.usage.cache_read.input_tokens": int64(1), "gen_ai.usage.output_tokens": int64(2)},
		2: {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "add", "gen_ai.tool.type": "function", "gen_ai.tool.call.id": "call_1"},
		4: {"gen_ai.response.model": "lake@4", "gen_ai.usage.input_tokens": int64(6)},
		5: {"headrace.reward": .5},
		6: {"error.type": "unanswered"},
	} {
		have := values(spans[i].Attributes)
		for key, v := range want {
			if have[key] != v {
				t.Errorf("%s: %s is %v, want %v", spans[i].Name, key, have[key], v)
			}
		}
	}
	var scores []string
	for _, e := range spans[0].Events {
		a := values(e.Attributes)
		scores = append(scores, fmt.Sprint(e.Name, " ", a["gen_ai.evaluation.name"], " ", a["gen_ai.evaluation.score.value"], " ", a["gen_ai.evaluation.score.label"]))
	}
	if want := []string{"gen_ai.evaluation.result reward 0.75 truncated", "gen_ai.evaluation.result answer 0.5 truncated", "gen_ai.evaluation.result format 0.25 truncated"}; !slices.Equal(scores, want) {
		t.Errorf("events %q", scores)
	}
}

func TestSpans_IDsFollowFromTheTrajectory(t *testing.T) {
	a, b := otel.Spans(run, episode(0), subjects.Address{}, false), otel.Spans(run, episode(0), subjects.Address{}, true)
	seen := map[string]bool{}
	for i := range a {
		if string(a[i].SpanId) != string(b[i].SpanId) || string(a[i].TraceId) != string(b[i].TraceId) {
			t.Error("the same trajectory has other ids")
		}
		seen[string(a[i].SpanId)] = true
	}
	if len(seen) != len(a) {
		t.Errorf("%d ids of %d spans", len(seen), len(a))
	}
	if id := otel.TraceID(run, "t0/1/0"); hex.EncodeToString(id[:]) != hex.EncodeToString(a[0].TraceId) || otel.TraceID("other", "t0/1/0") == id || otel.TraceID(run, "t0/1/1") == id {
		t.Error("a trace's id is not that of run and trajectory")
	}
}

func TestSpans_WhatWasSaidOnlyOnRequest(t *testing.T) {
	for _, s := range otel.Spans(run, episode(0), subjects.Address{}, false) {
		for key := range values(s.Attributes) {
			if strings.Contains(key, "messages") || strings.Contains(key, "arguments") || strings.Contains(key, "result") {
				t.Errorf("%s has %s", s.Name, key)
			}
		}
	}
	spans := otel.Spans(run, episode(0), subjects.Address{}, true)
	chat, tool := values(spans[1].Attributes), values(spans[2].Attributes)
	for key, want := range map[string]string{"gen_ai.input.messages": `[{"role":"system","parts":[{"type":"text","content":"rechne größer"}]},{"role":"user"`,
		"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"denke"},{"type":"tool_call","id":"call_1","name":"add","arguments":"{\"a\":1}"}`} {
		if text, _ := chat[key].(string); !strings.HasPrefix(text, want) {
			t.Errorf("%s is %s", key, text)
		}
	}
	if tool["gen_ai.tool.call.arguments"] != `{"a":1}` || tool["gen_ai.tool.call.result"] != "2" {
		t.Errorf("the tool: %v", tool)
	}
}

func TestSpans_OfWhatAHostileProducerWrote(t *testing.T) {
	x := episode(0)
	x.Engine, x.Environment, x.Status, x.Reason = "\xff\xfe", strings.Repeat("x", 1<<20), subjects.Failed, strings.Repeat("ü\xc3", 1<<16)
	x.Started, x.Finished = -5, -1<<62
	x.Turns = append(x.Turns, subjects.Turn{Segment: 99, Completion: subjects.Span{Start: 1, End: 1 << 30}, Queued: 1, Generated: 1 << 62, Stepped: 2, Finish: "\xff"})
	x.Messages = append(x.Messages, subjects.Message{Role: "assistant", Content: "<tool_call>{"}, subjects.Message{Role: "assistant"}, subjects.Message{Role: "\xff"})
	for _, s := range otel.Spans(run, x, subjects.Address{}, true) {
		if _, err := proto.Marshal(s); err != nil {
			t.Errorf("%.40s: %v", s.Name, err)
		}
		if s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%.40s ends before it starts", s.Name)
		}
	}
}

func TestRun_SendsAWindowOnce(t *testing.T) {
	w, c := newWorld(t), newCollector(t)
	w.play(0, 5)
	_, err := w.conn.JS().PublishMsg(t.Context(), &nats.Msg{Subject: run.RolloutSubject("p1"), Data: []byte("x"),
		Header: nats.Header{subjects.HeaderIndex: {"1 train t9 3 1 0 succeeded 0.75 1 10 10 4 11 12 0 calc 0 619 519be5a4"}, subjects.HeaderProducer: {"p1"}, subjects.HeaderCounter: {"9"}}})
	w.must(err)
	c.answer = func(n int) int {
		if n == 1 {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	r, err := otel.Run(t.Context(), w.conn, run, otel.Options{Endpoint: c.URL, Version: "1"})
	w.must(err)
	if r.Trajectories != 5 || r.Spans != 35 || r.Requests != 1 || r.Unreadable != 1 || len(c.got()) != 35 || c.service[0] != "headrace" || c.asked != 2 {
		t.Errorf("%+v, and %d spans came in %d requests", r, len(c.got()), c.asked)
	}
	c.refused = 2
	r, err = otel.Run(t.Context(), w.conn, run, otel.Options{Endpoint: c.URL + "/v1/traces", Filter: replay.Filter{Groups: []subjects.GroupID{"t3", "t4"}}})
	w.must(err)
	if r.Trajectories != 2 || r.Rejected != 2 || len(c.got()) != 49 {
		t.Errorf("%+v, and %d spans came", r, len(c.got()))
	}
}

func TestRun_ManySpansAreManyRequests(t *testing.T) {
	w, c := newWorld(t), newCollector(t)
	w.play(0, 300)
	r, err := otel.Run(t.Context(), w.conn, run, otel.Options{Endpoint: c.URL})
	w.must(err)
	if r.Spans != 2100 || r.Requests != 3 || len(c.got()) != 2100 {
		t.Errorf("%+v", r)
	}
	half, err := otel.Run(t.Context(), w.conn, run, otel.Options{Endpoint: c.URL, Sample: .5})
	w.must(err)
	if half.Trajectories < 100 || half.Trajectories > 200 {
		t.Errorf("half of 300 is %d", half.Trajectories)
	}
}

func TestRun_ACollectorThatIsAwayOrRefuses(t *testing.T) {
	w, c := newWorld(t), newCollector(t)
	w.play(0, 2)
	c.answer = func(int) int { return http.StatusUnauthorized }
	if _, err := otel.Run(t.Context(), w.conn, run, otel.Options{Endpoint: c.URL}); err == nil || !strings.Contains(err.Error(), "401") || c.asked != 1 {
		t.Errorf("%v after %d requests, want that it is not asked again", err, c.asked)
	}
	if _, err := otel.Run(t.Context(), w.conn, run, otel.Options{Endpoint: "localhost:4318"}); err == nil || !strings.Contains(err.Error(), "want a URL") {
		t.Errorf("%v", err)
	}
	c.Close()
	if _, err := otel.Run(t.Context(), w.conn, run, otel.Options{Endpoint: c.URL, Patience: 700 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "send 14 spans") {
		t.Errorf("%v", err)
	}
}

func TestRun_FollowsARunUntilItEnds(t *testing.T) {
	w, c := newWorld(t), newCollector(t)
	w.must(bus.CreateRun(t.Context(), w.conn, &subjects.RunRecord{V: 1, Run: run, Schema: subjects.SchemaVersion, Recipe: []byte("{}")}))
	w.play(0, 3)
	type outcome struct {
		otel.Report
		err error
	}
	done := make(chan outcome, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		r, err := otel.Run(t.Context(), w.conn, run, otel.Options{Endpoint: c.URL, Live: true})
		done <- outcome{r, err}
	}()
	<-started
	next := 3
	deadline := time.Now().Add(20 * time.Second)
	for len(c.got()) < 14 { // it starts when it starts: what was before it is not told
		if time.Now().After(deadline) {
			t.Fatal("nothing came")
		}
		w.play(next, next+1)
		next++
	}
	w.must(bus.EndRun(t.Context(), w.conn, run, subjects.EndComplete))
	r := <-done
	w.must(r.err)
	if r.End != subjects.EndComplete || r.Trajectories < 2 || r.Trajectories > next-3 || len(c.got()) != 7*r.Trajectories {
		t.Errorf("%+v, %d spans came of %d episodes", r.Report, len(c.got()), next-3)
	}
}

func TestRun_ALiveTapEndsWhenAsked(t *testing.T) {
	w, c := newWorld(t), newCollector(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := otel.Run(ctx, w.conn, run, otel.Options{Endpoint: c.URL, Live: true}); err != nil {
		t.Error(err)
	}
}

// BenchmarkSpans is what a trajectory costs the tap, but for sending it.
func BenchmarkSpans(b *testing.B) {
	t := episode(0)
	b.ReportAllocs()
	for b.Loop() {
		otel.Spans(run, t, subjects.Address{}, false)
	}
}
