package otel_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const run = subjects.Run("lake")

// collector is what a collector is to who sends: it takes OTLP over HTTP, and
// decodes it.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*tracepb.Span
	service []string
	bytes   int // of what was sent
	// answer, when set, is called with the number of the request; a status but 0
	// is answered instead of taking it.
	answer  func(n int) int
	refused int64 // spans that it says it refused, of each request
	asked   int
}

func newCollector(t testing.TB) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(w, r); err != nil {
			t.Error(err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) take(w http.ResponseWriter, r *http.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.answer != nil {
		if status := c.answer(c.asked); status != 0 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
			return nil
		}
	}
	if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("Content-Encoding") != "gzip" {
		return fmt.Errorf("request %s %s, %v", r.Method, r.URL, r.Header)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	var req tracecollector.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &req); err != nil {
		return err
	}
	c.bytes += len(data)
	for _, rs := range req.ResourceSpans {
		c.service = append(c.service, values(rs.Resource.Attributes)["service.name"].(string))
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	out, err := proto.Marshal(&tracecollector.ExportTraceServiceResponse{PartialSuccess: &tracecollector.ExportTracePartialSuccess{RejectedSpans: c.refused}})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, err = w.Write(out)
	return err
}

func (c *collector) got() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*tracepb.Span(nil), c.spans...)
}

// values are attributes as Go has them.
func values(in []*commonpb.KeyValue) map[string]any {
	out := map[string]any{}
	for _, kv := range in {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[kv.Key] = v.IntValue
		case *commonpb.AnyValue_DoubleValue:
			out[kv.Key] = v.DoubleValue
		case *commonpb.AnyValue_ArrayValue:
			out[kv.Key] = v.ArrayValue.Values[0].GetStringValue()
		default:
			out[kv.Key] = v
		}
	}
	return out
}

// world is a run on a real server.
type world struct {
	testing.TB
	conn *bus.Conn
	pub  *bus.Publisher
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, conn: natstest.Connect(t, natstest.InProcess(t))}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{RolloutBytes: 1 << 28}))
	w.pub = bus.NewPublisher(w.conn, bus.PublisherConfig{Run: run, Producer: "p1"})
	t.Cleanup(func() { _ = w.pub.Close(context.Background()) })
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) play(from, to int) {
	w.Helper()
	for n := from; n < to; n++ {
		_, err := w.pub.Publish(w.Context(), episode(n))
		w.must(err)
	}
}

const at = int64(1_760_000_000_000_000_000)

// episode has a turn with two tools, one that just steps, and a call that failed.
func episode(n int) *subjects.Trajectory {
	return &subjects.Trajectory{
		Kind: subjects.Train, Group: subjects.TrainGroup(uint64(n)), Slot: 1, Environment: "calc", Producer: "p1", Engine: "e0", Tokenizer: "bytes",
		Status: subjects.Truncated, Reason: "turn limit", Reward: .75, Components: map[string]float64{"format": .25, "answer": .5},
		Sampling: subjects.Sampling{Temperature: 1, TopK: 20, MaxNewTokens: 64, Seed: 7}, Started: at, Finished: at + 9e9,
		Segments: []subjects.Segment{{Parent: -1, Tokens: []int32{1, 2, 3, 4, 5, 6, 7, 8}, Logprobs: []float32{-1, -1, -1},
			Versions: []subjects.VersionSpan{{Start: 2, End: 4, Version: 3}, {Start: 6, End: 7, Version: 4}}, LossMask: []subjects.Span{{Start: 2, End: 4}}}},
		Turns: []subjects.Turn{
			{Prompt: subjects.Span{Start: 0, End: 2}, Completion: subjects.Span{Start: 2, End: 4}, Queued: at + 1e9, Generated: at + 2e9, Stepped: at + 4e9, Cached: 1, Finish: "tool_calls"},
			{Prompt: subjects.Span{Start: 4, End: 6}, Completion: subjects.Span{Start: 6, End: 7}, Queued: at + 4e9, Generated: at + 5e9, Stepped: at + 6e9, Finish: "stop", Reward: .5},
			{Queued: at + 6e9, Finish: ""},
		},
		Messages: []subjects.Message{
			{Role: "system", Content: "rechne größer"}, {Role: "user", Content: "1+1?"},
			{Role: "assistant", Content: `denke <tool_call>{"name":"add","arguments":{"a":1}}</tool_call><tool_call>{"name":"show","arguments":{}}</tool_call>`},
			{Role: "tool", Content: "2", Name: "add"}, {Role: "tool", Content: "shown"}, {Role: "assistant", Content: "zwei"}, {Role: "user", Content: "mehr?"}},
	}
}
