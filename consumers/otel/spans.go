package otel

import (
	"maps"
	"slices"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/headrace/headrace/consumers/export"
	"github.com/headrace/headrace/subjects"
)

// Names of OpenTelemetry's conventions for generative AI, as of November 2026.
const (
	keyOperation    = "gen_ai.operation.name"
	keyProvider     = "gen_ai.provider.name"
	keyAgent        = "gen_ai.agent.name"
	keyConversation = "gen_ai.conversation.id"
	keyModel        = "gen_ai.request.model"
	keyServed       = "gen_ai.response.model"
	keyInputTokens  = "gen_ai.usage.input_tokens"
	keyCachedTokens = "gen_ai.usage.cache_read.input_tokens"
	keyOutputTokens = "gen_ai.usage.output_tokens"
	keyFinish       = "gen_ai.response.finish_reasons"
	keyInput        = "gen_ai.input.messages"
	keyOutput       = "gen_ai.output.messages"
	keyTool         = "gen_ai.tool.name"
	keyToolType     = "gen_ai.tool.type"
	keyCall         = "gen_ai.tool.call.id"
	keyArguments    = "gen_ai.tool.call.arguments"
	keyResult       = "gen_ai.tool.call.result"
	keyError        = "error.type"
	eventEvaluation = "gen_ai.evaluation.result"
	keyEvaluation   = "gen_ai.evaluation.name"
	keyScore        = "gen_ai.evaluation.score.value"
	keyLabel        = "gen_ai.evaluation.score.label"
	keyExplanation  = "gen_ai.evaluation.explanation"
)

// provider is who serves the model, as far as the log knows.
const provider = "headrace"

// teller makes the spans of one trajectory.
type teller struct {
	run     subjects.Run
	t       *subjects.Trajectory
	content bool
	trace   [16]byte
	root    []byte
	spans   []*tracepb.Span
	said    []said
}

// Spans are what a trajectory of a run is in a trace: the episode first. Content
// adds what was said; without it there are times, counts and names.
func Spans(run subjects.Run, t *subjects.Trajectory, address subjects.Address, content bool) []*tracepb.Span {
	w := &teller{run: run, t: t, content: content, trace: TraceID(run, t.ID()), said: sayings(t)}
	w.root = spanID(w.trace, "episode", 0)
	w.episode(address)
	for i := range t.Turns {
		w.turn(i)
	}
	return w.spans
}

func (w *teller) add(parent, id []byte, name string, kind tracepb.Span_SpanKind, start, end int64, a attributes) *tracepb.Span {
	start = max(start, 0)
	s := &tracepb.Span{TraceId: w.trace[:], SpanId: id, ParentSpanId: parent, Name: clean(name), Kind: kind,
		StartTimeUnixNano: uint64(start), EndTimeUnixNano: uint64(max(start, end)), Attributes: a, Flags: 1}
	w.spans = append(w.spans, s)
	return s
}

func (w *teller) episode(address subjects.Address) {
	t := w.t
	var a attributes
	a.text(keyOperation, "invoke_agent")
	a.text(keyProvider, provider)
	a.text(keyAgent, t.Environment)
	a.text(keyConversation, t.ID())
	a.text(keyModel, string(w.run))
	w.request(&a)
	input, cached, output := 0, 0, 0
	for i := range t.Turns {
		u := &t.Turns[i]
		input, cached, output = input+int(u.Completion.Start), cached+int(u.Cached), output+int(u.Completion.End-u.Completion.Start)
	}
	usage(&a, input, cached, output)
	a.text("headrace.run", string(w.run))
	a.text("headrace.kind", string(t.Kind))
	a.text("headrace.group", string(t.Group))
	a.int("headrace.slot", int64(t.Slot))
	a.int("headrace.attempt", int64(t.Attempt))
	a.int("headrace.rollouts.sequence", int64(address.Seq)) //nolint:gosec // sequences are far below
	a.int("headrace.rollouts.index", int64(address.Index))
	a.text("headrace.environment", t.Environment)
	a.text("headrace.producer", t.Producer)
	a.text("headrace.engine", t.Engine)
	a.text("headrace.status", string(t.Status))
	a.float("headrace.reward", t.Reward)
	e := t.Index()
	a.int("headrace.policy_version.min", int64(e.MinVersion))
	a.int("headrace.policy_version.max", int64(e.MaxVersion))
	a.int("headrace.turns", int64(len(t.Turns)))
	a.int("headrace.segments", int64(len(t.Segments)))
	if w.content {
		a.json(keyInput, messages(t.Messages))
	}
	s := w.add(nil, w.root, "invoke_agent "+t.Environment, tracepb.Span_SPAN_KIND_INTERNAL, t.Started, t.Finished, a)
	s.Events = w.rewards()
	if !t.Status.Trained() {
		s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: clean(t.Reason)}
		(*attributes)(&s.Attributes).text(keyError, string(t.Status))
	}
}

// request are the parameters that every call of the episode was made with.
func (w *teller) request(a *attributes) {
	p := &w.t.Sampling
	a.float("gen_ai.request.temperature", p.Temperature)
	if p.TopP > 0 {
		a.float("gen_ai.request.top_p", p.TopP)
	}
	if p.TopK > 0 {
		a.int("gen_ai.request.top_k", int64(p.TopK))
	}
	if p.MaxNewTokens > 0 {
		a.int("gen_ai.request.max_tokens", int64(p.MaxNewTokens))
	}
	if p.Seed > 0 {
		a.int("gen_ai.request.seed", int64(p.Seed)) //nolint:gosec // the bits are what counts
	}
}

func usage(a *attributes, input, cached, output int) {
	a.int(keyInputTokens, int64(input))
	if cached > 0 {
		a.int(keyCachedTokens, int64(cached))
	}
	a.int(keyOutputTokens, int64(output))
}

// rewards are the results of evaluating the episode: the reward, and what it is made of.
func (w *teller) rewards() []*tracepb.Span_Event {
	event := func(name string, score float64) *tracepb.Span_Event {
		var a attributes
		a.text(keyEvaluation, name)
		a.float(keyScore, score)
		a.text(keyLabel, string(w.t.Status))
		a.text(keyExplanation, w.t.Reason)
		return &tracepb.Span_Event{Name: eventEvaluation, TimeUnixNano: uint64(max(w.t.Finished, 0)), Attributes: a}
	}
	out := []*tracepb.Span_Event{event("reward", w.t.Reward)}
	for _, name := range slices.Sorted(maps.Keys(w.t.Components)) {
		out = append(out, event(name, w.t.Components[name]))
	}
	return out
}

// turn is a model's call, and the environment's answer to it.
func (w *teller) turn(i int) {
	u := &w.t.Turns[i]
	if u.Queued <= 0 {
		return
	}
	var a attributes
	a.text(keyOperation, "chat")
	a.text(keyProvider, provider)
	a.text(keyConversation, w.t.ID())
	a.text(keyModel, string(w.run))
	if v, ok := w.version(u); ok {
		a.text(keyServed, string(w.run)+"@"+v.String())
		a.int("headrace.policy_version", int64(v))
	}
	w.request(&a)
	usage(&a, int(u.Completion.Start), int(u.Cached), int(u.Completion.End-u.Completion.Start))
	if u.Finish != "" {
		a.texts(keyFinish, u.Finish)
	}
	a.int("headrace.turn", int64(i))
	a.int("headrace.segment", int64(u.Segment))
	if w.content && i < len(w.said) {
		a.json(keyInput, messages(w.said[i].heard))
		a.json(keyOutput, []message{w.said[i].answer()})
	}
	call := w.add(w.root, spanID(w.trace, "chat", i), "chat "+string(w.run), tracepb.Span_SPAN_KIND_CLIENT, u.Queued, u.Generated, a)
	if u.Generated < u.Queued || u.Completion.End == u.Completion.Start {
		call.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "the call was not answered"}
		(*attributes)(&call.Attributes).text(keyError, "unanswered")
		return
	}
	if u.Stepped >= u.Generated {
		w.step(i, u)
	}
}

// step is what the environment did with what the model said: each tool that it
// called, or just a step. How the time divides among tools the log does not say.
func (w *teller) step(i int, u *subjects.Turn) {
	var calls []export.ToolCall
	if i < len(w.said) {
		calls = w.said[i].calls
	}
	if len(calls) == 0 {
		var a attributes
		a.int("headrace.turn", int64(i))
		a.float("headrace.reward", u.Reward)
		a.text("headrace.environment", w.t.Environment)
		w.add(w.root, spanID(w.trace, "step", i), "environment step", tracepb.Span_SPAN_KIND_INTERNAL, u.Generated, u.Stepped, a)
		return
	}
	for j, c := range calls {
		var a attributes
		a.text(keyOperation, "execute_tool")
		a.text(keyTool, c.Function.Name)
		a.text(keyToolType, "function")
		a.text(keyCall, c.ID)
		a.int("headrace.turn", int64(i))
		a.float("headrace.reward", u.Reward)
		if w.content {
			a.text(keyArguments, c.Function.Arguments)
			a.text(keyResult, w.said[i].results[c.ID])
		}
		w.add(w.root, spanID(w.trace, "tool", i<<12+j), "execute_tool "+c.Function.Name, tracepb.Span_SPAN_KIND_INTERNAL, u.Generated, u.Stepped, a)
	}
}
