package sidecar_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/subjects"
)

// hears collects what the engine's sidecar tells TELEMETRY.
type hears struct {
	mu     sync.Mutex
	gauges []subjects.Gauges
	spans  []subjects.TimeSpan
}

func (s *stage) hears() *hears {
	h := &hears{}
	sub, err := s.conn.NC().Subscribe(run.Filter(subjects.Telemetry), func(m *nats.Msg) {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch m.Subject {
		case run.TelemetrySubject("engine", "e1"):
			var g subjects.Gauges
			if subjects.DecodeMessage(m.Data, &g) == nil {
				h.gauges = append(h.gauges, g)
			}
		case run.SpanSubject("engine", "e1"):
			var b subjects.SpanBatch
			if subjects.DecodeMessage(m.Data, &b) == nil {
				spans, _ := b.Spans()
				h.spans = append(h.spans, spans...)
			}
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = sub.Unsubscribe() })
	return h
}

// last are the newest gauges' values.
func (h *hears) last() map[string]float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.gauges) == 0 {
		return nil
	}
	return h.gauges[len(h.gauges)-1].Values
}

// of are the spans of a name.
func (h *hears) of(name string) (found []subjects.TimeSpan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.spans {
		if x.Name == name {
			found = append(found, x)
		}
	}
	return found
}

// pages answers as our own engine does: figures, and one batch more a call.
func pages(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" {
		fmt.Fprint(w, "sglang:num_running_reqs{tp_rank=\"0\"} 3\nsglang:prompt_tokens_total 100\nsglang:cached_tokens_total 60\nheadrace:device_seconds_total 1.5\n")
		return
	}
	now := time.Now().UnixNano()
	fmt.Fprintf(w, `{"boot":"b","now":%d,"next":1,"start":[%d],"duration":[100],"rows":[5],"tokens":[40],"prefill":[0]}`, now, now-1000)
}

func TestSidecar_TellsHowTheEngineIsDoing(t *testing.T) {
	s := open(t, "")
	h := s.hears()
	s.engine.Page = pages
	s.start()
	s.publish(4, 1)
	ack := s.acksVersion(4)
	sglangtest.Eventually(t, "gauges of version 4", func() bool { v := h.last(); return v["version"] == 4 && v["running"] == 3 })
	v := h.last()
	if v["tokens_prompt"] != 100 || v["tokens_cached"] != 60 || v["device_seconds"] != 1.5 || v["syncs"] != 1 || v["up"] != 1 || v["paused"] != 0 {
		t.Errorf("gauges %v", v)
	}
	if took := ack.PauseSeconds + ack.LoadSeconds + ack.VerifySeconds + ack.ResumeSeconds; v["sync_seconds"] != took {
		t.Errorf("sync took %v, the gauge says %v", took, v["sync_seconds"])
	}
	if _, there := v["waiting"]; there {
		t.Error("a figure that the engine does not tell is made up")
	}
	s.stop() // which sends the last spans
	sglangtest.Eventually(t, "spans", func() bool { return len(h.of("resume")) > 0 && len(h.of("batch")) > 0 })
	for _, name := range []string{"pause", "load", "verify", "resume"} {
		found := h.of(name)
		if len(found) == 0 || found[0].Lane != 1 || len(found[0].Args) != 1 || found[0].Args[0] != (subjects.TimeSpanArg{Key: "version", Value: 4}) {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if b := h.of("batch")[0]; b.Lane != 0 || b.Duration != 100 || len(b.Args) != 2 || b.Args[0].Value != 5 || b.Args[1].Value != 40 {
		t.Errorf("batch %+v", b)
	}
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestSidecar_SaysOnceThatAnEngineTellsNothing(t *testing.T) {
	s := open(t, "")
	h, log := s.hears(), &buffer{}
	s.log = zerolog.New(log).Level(zerolog.InfoLevel)
	s.start()
	s.publish(1, 1)
	s.acksVersion(1)
	sglangtest.Eventually(t, "gauges without figures", func() bool { v := h.last(); return v["version"] == 1 && v["syncs"] == 1 })
	before := len(h.gauges)
	sglangtest.Eventually(t, "more of them", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.gauges) > before+5 })
	if n := strings.Count(log.String(), "--enable-metrics"); n != 1 {
		t.Errorf("said %d times: %s", n, log)
	}
}

// TestSidecar_SlowPageHoldsNoWeightsUp: an engine that never answers how it is
// still gets its weights, and is still told of.
func TestSidecar_SlowPageHoldsNoWeightsUp(t *testing.T) {
	s := open(t, "")
	h := s.hears()
	asked := make(chan struct{}, 100)
	s.engine.Page = func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}
	s.start()
	<-asked
	s.publish(1, 1)
	s.acksVersion(1)
	s.publish(2, 1)
	s.acksVersion(2)
	sglangtest.Eventually(t, "gauges of version 2", func() bool { return h.last()["version"] == 2 })
	if len(asked) > 0 {
		t.Error("the page is asked for again while it has not answered")
	}
}

func TestSidecar_HostilePageIsPassedOver(t *testing.T) {
	s := open(t, "")
	h := s.hears()
	s.engine.Page = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = w.Write(bytes.Repeat([]byte("sglang:token_usage{ "), 1<<18))
			return
		}
		fmt.Fprint(w, `{"start":[1,2,3],"now":1e400}`)
	}
	s.start()
	s.publish(1, 1)
	s.acksVersion(1)
	sglangtest.Eventually(t, "gauges", func() bool { return h.last()["version"] == 1 })
	if _, there := h.last()["token_usage"]; there || len(h.of("batch")) > 0 {
		t.Errorf("gauges %v, batches %v", h.last(), h.of("batch"))
	}
}
