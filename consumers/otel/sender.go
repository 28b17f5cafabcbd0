package otel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/subjects"
)

// A request has so many spans at most, of so many bytes before they are packed.
const (
	requestSpans = 1024
	requestBytes = 2 << 20
)

const (
	defaultPatience = time.Minute
	retryFirst      = 500 * time.Millisecond
	retryMost       = 10 * time.Second
	lastWord        = 5 * time.Second // for what is left when the user asks for the end
)

// sender gathers spans and sends them, one request at a time: who gives it more
// waits.
type sender struct {
	o        *Options
	run      subjects.Run
	client   otlptrace.Client
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
	spans    []*tracepb.Span
	bytes    int
	upTo     uint64 // sequence of the last trajectory that was gathered
	report   Report
	said     time.Time // when progress was
}

func newSender(run subjects.Run, o *Options) (*sender, error) {
	endpoint, err := tracesURL(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	var a attributes
	a.text("service.name", "headrace")
	a.text("service.version", o.Version)
	a.text("headrace.run", string(run))
	client := otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(endpoint), otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: o.Patience}))
	return &sender{o: o, run: run, client: client, resource: &resourcepb.Resource{Attributes: a}, said: time.Now(),
		scope: &commonpb.InstrumentationScope{Name: "headrace", Version: o.Version}, report: Report{Run: run}}, nil
}

// tracesURL is where traces go: an endpoint without a path has the usual one.
func tracesURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("endpoint %q: want a URL such as http://127.0.0.1:4318", endpoint)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// tell adds a trajectory, and sends when there is enough.
func (s *sender) tell(ctx context.Context, r *replay.Record) error {
	t, err := decode(r)
	if err != nil {
		s.report.Unreadable++
		return nil //nolint:nilerr // it is counted
	}
	if s.chosen(t) {
		for _, span := range Spans(s.run, t, r.Address, s.o.Content) {
			n := proto.Size(span)
			if len(s.spans) == requestSpans || len(s.spans) > 0 && s.bytes+n > requestBytes {
				if err := s.flush(ctx); err != nil {
					return err
				}
			}
			s.spans, s.bytes = append(s.spans, span), s.bytes+n
		}
		s.report.Trajectories++
	}
	s.upTo = r.Seq
	s.progress()
	return nil
}

func decode(r *replay.Record) (*subjects.Trajectory, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	return subjects.DecodeTrajectory(r.Body)
}

// chosen samples by the trace's id, as collectors do.
func (s *sender) chosen(t *subjects.Trajectory) bool {
	if s.o.Sample <= 0 || s.o.Sample >= 1 {
		return true
	}
	id := TraceID(s.run, t.ID())
	return float64(binary.BigEndian.Uint64(id[8:])>>11)/(1<<53) < s.o.Sample
}

// finish sends what is left, also when the user has asked for the end.
func (s *sender) finish(ctx context.Context) error {
	if ctx.Err() != nil {
		var cancel func()
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastWord)
		defer cancel()
	}
	return s.flush(ctx)
}

// flush sends what was gathered. A collector that is away is tried again for as
// long as patience lasts; spans it refuses are counted.
func (s *sender) flush(ctx context.Context) error {
	if len(s.spans) == 0 {
		s.report.Last = max(s.report.Last, s.upTo)
		return nil
	}
	batch := []*tracepb.ResourceSpans{{Resource: s.resource, ScopeSpans: []*tracepb.ScopeSpans{{Scope: s.scope, Spans: s.spans}}}}
	deadline := time.Now().Add(s.o.Patience)
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := s.client.UploadTraces(ctx, batch)
		if rejected, ok := partly(err); ok {
			s.report.Rejected += rejected
			err = nil
		}
		if err == nil {
			break
		}
		var away *url.Error
		if !errors.As(err, &away) || time.Now().Add(wait).After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("send %d spans: %w", len(s.spans), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	s.report.Requests++
	s.report.Spans += len(s.spans)
	s.report.Last = max(s.report.Last, s.upTo)
	s.spans, s.bytes = nil, 0
	return nil
}

// partly reads how many spans of an accepted request the collector refused.
func partly(err error) (rejected int, ok bool) {
	if err == nil {
		return 0, false
	}
	_, after, found := strings.Cut(err.Error(), "OTLP partial success: ")
	if !found {
		return 0, false
	}
	open := strings.LastIndexByte(after, '(')
	if _, err := fmt.Sscanf(after[open+1:], "%d spans rejected", &rejected); open < 0 || err != nil {
		return 0, false
	}
	return rejected, true
}

func (s *sender) progress() {
	if s.o.Progress != nil && time.Since(s.said) > progressEvery {
		s.said = time.Now()
		s.o.Progress(s.report)
	}
}

func (s *sender) close() { _ = s.client.Stop(context.Background()) }
