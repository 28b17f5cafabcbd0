package sglang_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/sglang"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/subjects"
)

func client(t testing.TB, s *sglangtest.Server) *sglang.Client {
	t.Helper()
	c, err := sglang.New(sglang.Options{URL: s.URL, Name: "e1", Vocab: 100, MaxAnswerBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func request() producers.Request {
	return producers.Request{Session: "t0/0/0", IDs: []int32{1, 2, 3}, StopIDs: []int32{2},
		Sampling: subjects.Sampling{Temperature: 0.7, TopP: 0.9, TopK: 40, MaxNewTokens: 8, Seed: 77}}
}

func TestGenerate_AsksForIDsAndLogprobsAndReadsThem(t *testing.T) {
	s := sglangtest.Start(t, "7")
	var got sglangtest.Request
	s.Answer = func(_ http.ResponseWriter, _ *http.Request, q sglangtest.Request) bool { got = q; return false }
	c, err := client(t, s).Generate(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	want := producers.Completion{IDs: []int32{5, 6, 2}, Logprobs: []float32{-0.5, -1, -1.5}, Finish: producers.FinishStop, Cached: 2,
		Versions: []subjects.VersionSpan{{End: 3, Version: 7}}, Engine: "e1"}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	if !got.ReturnLogprob || !reflect.DeepEqual(got.InputIDs, []int32{1, 2, 3}) || got.Sampling.Temperature != 0.7 || *got.Sampling.TopP != 0.9 ||
		*got.Sampling.TopK != 40 || got.Sampling.MaxNewTokens != 8 || got.Sampling.Seed != 77 || !reflect.DeepEqual(got.Sampling.StopTokenIDs, []int32{2}) {
		t.Errorf("the engine was sent %+v", got)
	}
}

func TestGenerate_NothingUnsoundIsSent(t *testing.T) {
	s := sglangtest.Start(t, "7")
	c := client(t, s)
	for name, spoil := range map[string]func(*producers.Request){
		"id too high":   func(r *producers.Request) { r.IDs[1] = 100 },
		"negative id":   func(r *producers.Request) { r.IDs[1] = -1 },
		"stop id":       func(r *producers.Request) { r.StopIDs[0] = 100 },
		"no prompt":     func(r *producers.Request) { r.IDs = nil },
		"nothing asked": func(r *producers.Request) { r.Sampling.MaxNewTokens = 0 },
	} {
		r := request()
		spoil(&r)
		if _, err := c.Generate(t.Context(), r); !errors.Is(err, producers.ErrBadRequest) {
			t.Errorf("%s: error %v, want ErrBadRequest", name, err)
		}
	}
	if calls := s.Log(); len(calls) != 0 {
		t.Errorf("the engine was called: %v", calls)
	}
}

// meta is a sound answer of two tokens with parts replaced.
func meta(replace ...string) string {
	text := `{"text":"\u00e9\"x","output_ids":[5,2],"meta_info":{"id":"a","finish_reason":{"type":"stop","matched":2},"prompt_tokens":3,` +
		`"weight_version":"7","weight_versions":[{"version":"6","start":0,"end":1},{"version":"7","start":1,"end":2}],` +
		`"output_token_logprobs":[[-0.5,5,null],[-1e-2,2,"x"]],"completion_tokens":2,"cached_tokens":0,"num_retractions":1,"queue_time":0.25}}`
	return strings.NewReplacer(replace...).Replace(text)
}

func answering(t *testing.T, status int, header http.Header, body string) *sglang.Client {
	s := sglangtest.Start(t, "7")
	s.Answer = func(w http.ResponseWriter, _ *http.Request, _ sglangtest.Request) bool {
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
		return true
	}
	return client(t, s)
}

func TestGenerate_SpansVersions(t *testing.T) {
	c, err := answering(t, 200, nil, meta()).Generate(t.Context(), request())
	want := []subjects.VersionSpan{{Start: 0, End: 1, Version: 6}, {Start: 1, End: 2, Version: 7}}
	if err != nil || !reflect.DeepEqual(c.Versions, want) || c.QueueTime != 250*time.Millisecond {
		t.Errorf("versions %v, queue %v, error %v", c.Versions, c.QueueTime, err)
	}
	spans := `"weight_versions":[{"version":"6","start":0,"end":1},{"version":"7","start":1,"end":2}],`
	c, err = answering(t, 200, nil, meta(spans, "")).Generate(t.Context(), request())
	if err != nil || !reflect.DeepEqual(c.Versions, []subjects.VersionSpan{{End: 2, Version: 7}}) {
		t.Errorf("without spans: versions %v, error %v", c.Versions, err)
	}
}

func TestGenerate_BelievesNothing(t *testing.T) {
	for name, body := range map[string]string{
		"no ids":               meta(`"output_ids":[5,2],`, ""),
		"null ids":             meta(`"output_ids":[5,2]`, `"output_ids":null`),
		"no logprobs":          meta(`"output_token_logprobs":[[-0.5,5,null],[-1e-2,2,"x"]],`, ""),
		"a logprob less":       meta(`,[-1e-2,2,"x"]`, ""),
		"other ids":            meta(`[-0.5,5,null]`, `[-0.5,6,null]`),
		"null logprob":         meta(`-0.5`, `null`),
		"NaN":                  meta(`-0.5`, `NaN`),
		"-Infinity":            meta(`-0.5`, `-Infinity`),
		"positive logprob":     meta(`-0.5`, `0.5`),
		"id out of range":      meta(`[5,2]`, `[500,2]`, `[-0.5,5,`, `[-0.5,500,`),
		"negative id":          meta(`[5,2]`, `[-5,2]`),
		"fractional id":        meta(`[5,2]`, `[5.5,2]`),
		"ids of strings":       meta(`[5,2]`, `["5","2"]`),
		"nothing sampled":      meta(`[5,2]`, `[]`, `[[-0.5,5,null],[-1e-2,2,"x"]]`, `[]`, `{"version":"6","start":0,"end":1},{"version":"7","start":1,"end":2}`, ``),
		"no finish":            meta(`{"type":"stop","matched":2}`, `null`),
		"unknown finish":       meta(`"stop"`, `"tired"`),
		"version gap":          meta(`"start":1`, `"start":2`),
		"version too long":     meta(`"end":2`, `"end":3`),
		"version too short":    meta(`,{"version":"7","start":1,"end":2}`, ``),
		"version of nobody":    meta(`"7"`, `"default"`),
		"version is null":      meta(`"version":"6"`, `"version":null`),
		"negative version":     meta(`"6"`, `"-6"`),
		"a list":               "[" + meta() + "]",
		"not JSON":             "<html>",
		"empty":                "",
		"cut short":            meta()[:60],
		"two values":           meta() + meta(),
		"nested without end":   `{"x":` + strings.Repeat("[", 10_000),
		"more than is allowed": `{"x":"` + strings.Repeat("x", 1<<17) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := answering(t, 200, nil, body).Generate(t.Context(), request()); !errors.Is(err, producers.ErrBadAnswer) {
				t.Errorf("got %+v, error %v, want ErrBadAnswer", c, err)
			}
		})
	}
}

func TestGenerate_RefusalsAreTyped(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"queue full":     {503, `{"error":{"message":"The request queue is full."}}`, producers.ErrOverloaded},
		"too many":       {429, `slow down`, producers.ErrOverloaded},
		"no weights":     {503, `{"error":"no weights"}`, producers.ErrUnavailable},
		"internal":       {500, `oh`, producers.ErrUnavailable},
		"gateway":        {502, `oh`, producers.ErrUnavailable},
		"too long":       {400, `{"error":{"message":"The input (300 tokens) is longer than the model's context length (256 tokens)."}}`, producers.ErrTooLong},
		"unknown field":  {400, `{"error":"Unexpected keyword argument 'x'"}`, producers.ErrBadRequest},
		"not there":      {404, `{"detail":"Not Found"}`, producers.ErrBadRequest},
		"aborted":        {200, meta(`{"type":"stop","matched":2}`, `{"type":"abort","message":"paused"}`), producers.ErrAborted},
		"aborted bare":   {200, meta(`{"type":"stop","matched":2}`, `{"type":"abort","message":null}`), producers.ErrAborted},
		"abort too long": {200, meta(`{"type":"stop","matched":2}`, `{"type":"abort","message":"Input is longer than the context"}`), producers.ErrTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := answering(t, c.status, nil, c.body).Generate(t.Context(), request())
			if !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestGenerate_OverloadSaysWhenToRetry(t *testing.T) {
	_, err := answering(t, 429, http.Header{"Retry-After": {"3"}}, "").Generate(t.Context(), request())
	var overloaded *producers.OverloadedError
	if !errors.As(err, &overloaded) || overloaded.RetryAfter != 3*time.Second {
		t.Errorf("error %v", err)
	}
}

func TestGenerate_EngineThatDiesIsUnavailable(t *testing.T) {
	for name, die := range map[string]func(http.ResponseWriter){
		"before the answer": sglangtest.Hangup,
		"in the body": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"output_ids":[5`)
			_ = http.NewResponseController(w).Flush()
			sglangtest.Hangup(w)
		},
	} {
		s := sglangtest.Start(t, "7")
		s.Answer = func(w http.ResponseWriter, _ *http.Request, _ sglangtest.Request) bool { die(w); return true }
		if _, err := client(t, s).Generate(t.Context(), request()); !errors.Is(err, producers.ErrUnavailable) {
			t.Errorf("%s: error %v, want ErrUnavailable", name, err)
		}
	}
	s := sglangtest.Start(t, "7")
	s.Close()
	if _, err := client(t, s).Generate(t.Context(), request()); !errors.Is(err, producers.ErrUnavailable) {
		t.Errorf("gone: error %v, want ErrUnavailable", err)
	}
}

func TestGenerate_CancelledCallIsAbortedAtTheEngine(t *testing.T) {
	s := sglangtest.Start(t, "7")
	arrived := make(chan string, 1)
	s.Answer = func(_ http.ResponseWriter, r *http.Request, q sglangtest.Request) bool {
		arrived <- q.RID
		<-r.Context().Done()
		return true
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	c := client(t, s)
	go func() { _, err := c.Generate(ctx, request()); failed <- err }()
	rid := <-arrived
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	sglangtest.Eventually(t, "the engine hears of the abort", func() bool { return reflect.DeepEqual(s.Aborted(), []string{rid}) })
}

func TestProbe_RefusesAnEngineWithoutLogprobsInOneLine(t *testing.T) {
	c := answering(t, 200, nil, `{"output_ids":[5],"meta_info":{"finish_reason":{"type":"length"},"weight_version":"7"}}`)
	err := c.Probe(t.Context())
	if !errors.Is(err, producers.ErrBadAnswer) || !strings.Contains(err.Error(), "does not return logprobs") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	if err := client(t, sglangtest.Start(t, "3")).Probe(t.Context()); err != nil {
		t.Errorf("a sound engine is refused: %v", err)
	}
	if err := client(t, sglangtest.Start(t, "")).Probe(t.Context()); !errors.Is(err, producers.ErrUnavailable) {
		t.Errorf("an engine without weights: error %v, want ErrUnavailable", err)
	}
}

func TestNew_RefusesAnAddressThatIsNone(t *testing.T) {
	for _, url := range []string{"", "localhost:30000", "ftp://x", "http://"} {
		if _, err := sglang.New(sglang.Options{URL: url}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
}
