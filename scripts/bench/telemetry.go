package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/metrics"
	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/subjects"
)

const (
	telemetryOn  = "on"
	telemetryOff = "off"
	sayEvery     = time.Second
	scrapeEvery  = 5 * time.Second
)

// speaker says of a producer of the benchmark what a real one says of itself: its
// spans of an episode, its gauges, and a page for Prometheus. A nil one is silent.
type speaker struct {
	*spans.Recorder
	wait, parse, publish spans.Name
	acknowledge          spans.Name
	stop                 func()
}

func (j job) speaker(ctx context.Context, conn *bus.Conn, role, instance string) (*speaker, error) {
	if j.Telemetry != telemetryOn {
		return &speaker{stop: func() {}}, nil
	}
	r := spans.New(role, instance, 0)
	s := &speaker{Recorder: r, wait: r.Name("wait for task"), parse: r.Name("parse"), publish: r.Name("publish"), acknowledge: r.Name("acknowledge")}
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() { defer close(gone); _ = r.Run(ctx, conn, benchRun) }()
	go gauges(ctx, conn, role, instance)
	closePage, err := j.page(ctx, conn, role, instance)
	s.stop = func() { cancel(); <-gone; closePage() }
	if err != nil {
		cancel()
	}
	return s, err
}

func (s *speaker) now() int64 {
	if s == nil || s.Recorder == nil {
		return 0
	}
	return s.Now()
}

// episode begins one whose task was waited for since a time.
func (s *speaker) episode(lane int32, since int64, t *subjects.Trajectory) spans.Episode {
	if s == nil || s.Recorder == nil {
		return spans.Episode{}
	}
	e := s.Episode(subjects.FlowID(t.Group, t.Slot, t.Attempt), lane)
	e.Beside(s.wait, lane, since, e.Now())
	return e
}

// played notes that it was played, as long as a turn, and published.
func (s *speaker) played(e spans.Episode, lane int32, turned int64) {
	if s == nil || s.Recorder == nil {
		return
	}
	published := e.Now()
	e.Record(s.parse, turned, turned)
	e.Record(s.publish, turned, published)
	e.Beside(s.acknowledge, lane, published, e.Now())
}

// gauges are as many as a producer's.
func gauges(ctx context.Context, conn *bus.Conn, role, instance string) {
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	names := []string{"slots", "episodes_live", "episodes_succeeded", "episodes_truncated", "episodes_overlong", "episodes_failed", "episodes_aborted", "steps", "calls",
		"forks", "leaked", "tokens_prompt", "tokens_cached", "tokens_sampled", "engine_wait_seconds", "env_wait_seconds", "leases_held", "leases_taken", "published",
		"publisher_waiting", "publisher_bytes", "publisher_bundles", "publisher_duplicates", "publisher_retries", "publisher_blocked", "engines", "engines_live",
		"engine_calls_in_flight", "engine_calls_waiting", "engine_calls_limit", "engine_retries", "engine_overloads"}
	for n := 0.0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			g := &subjects.Gauges{V: 1, Role: role, Instance: instance, At: now.UnixNano(), Values: map[string]float64{}}
			for i, name := range names {
				g.Values[name] = n * float64(i)
			}
			if data, err := subjects.EncodeMessage(g); err == nil {
				_ = conn.Tell(benchRun.TelemetrySubject(role, instance), data)
			}
		}
	}
}

// page serves a role's numbers and has somebody ask for them as often as the
// Prometheus of the compose file does.
func (j job) page(ctx context.Context, conn *bus.Conn, role, instance string) (stop func(), err error) {
	if j.Telemetry != telemetryOn {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	page := metrics.Page{Addr: l.Addr().String(), Version: "bench", Run: benchRun, Reports: metrics.NewReports()}
	_ = l.Close()
	silence, err := metrics.Tap(conn, benchRun, []metrics.Own{{Role: role, Instance: instance}}, page.Reports)
	if err != nil {
		return nil, err
	}
	closePage, err := page.Serve(ctx, conn, logger())
	if err != nil {
		silence()
		return nil, err
	}
	url := "http://" + page.Addr + "/metrics"
	ask(url) // what the first one costs is no part of a run of hours
	ctx, cancel := context.WithCancel(ctx)
	go scrape(ctx, url)
	return func() { cancel(); closePage(); silence() }, nil
}

func scrape(ctx context.Context, url string) {
	tick := time.NewTicker(scrapeEvery / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(scrapeEvery)
			ask(url)
		}
	}
}

func ask(url string) {
	if r, err := http.Get(url); err == nil { //nolint:gosec,noctx // our own
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
}
