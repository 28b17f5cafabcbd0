package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Page is one process's metrics: what it was told to fold, and of itself.
type Page struct {
	// Addr to listen on, as in ":9464".
	Addr string
	// Version of the build.
	Version string
	// Run that the numbers are of; empty of a process that is of none.
	Run     subjects.Run
	Reports *Reports // nil: none
	Log     *Log     // nil: none
	Asked   *Asked   // nil: none
}

// registry has everything of the page; what is of the run has its name.
func (p *Page) registry(c *bus.Conn) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "headrace_build_info", Help: "1, with the build's version.",
		ConstLabels: prometheus.Labels{"version": p.Version, "goversion": runtime.Version()}})
	build.Set(1)
	reg.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var ofRun prometheus.Registerer = reg
	if p.Run != "" {
		ofRun = prometheus.WrapRegistererWith(prometheus.Labels{"run": string(p.Run)}, reg)
	}
	if c != nil {
		ofRun.MustRegister(&process{conn: c, reports: p.Reports})
	}
	if p.Reports != nil {
		ofRun.MustRegister(p.Reports)
	}
	if p.Log != nil {
		ofRun.MustRegister(p.Log)
	}
	if p.Asked != nil {
		ofRun.MustRegister(p.Asked)
	}
	return reg
}

// Serve listens, and answers until ctx ends. Listening is the caller's first
// chance to hear that the address is taken.
func (p *Page) Serve(ctx context.Context, c *bus.Conn, log zerolog.Logger) (stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.Addr)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w (choose another address)", err)
	}
	reg := p.registry(c)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second, EnableOpenMetrics: true}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "headrace: the metrics are at /metrics")
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Warn().Err(err).Msg("metrics are not served any more")
		}
	}()
	log.Info().Str("address", "http://"+l.Addr().String()+"/metrics").Msg("metrics are served")
	return func() { _ = s.Close(); <-done }, nil
}

// process is what the page says of the process itself, read when it is asked.
type process struct {
	conn    *bus.Conn
	reports *Reports
}

// of reads the process's numbers, by family.
func (p *process) of() map[string]float64 {
	s := p.conn.NC().Stats()
	out := map[string]float64{"headrace_bus_reconnects_total": float64(s.Reconnects), "headrace_bus_received_bytes_total": float64(s.InBytes), "headrace_bus_sent_bytes_total": float64(s.OutBytes), "headrace_bus_connected": 0}
	if p.conn.NC().IsConnected() {
		out["headrace_bus_connected"] = 1
	}
	if p.reports != nil {
		read, ignored := p.reports.counts()
		out["headrace_telemetry_reports_total"], out["headrace_telemetry_reports_ignored_total"] = float64(read), float64(ignored)
	}
	return out
}

// Describe implements prometheus.Collector.
func (p *process) Describe(out chan<- *prometheus.Desc) {
	for _, f := range processFamilies {
		if f.Name != "headrace_build_info" {
			out <- f.desc()
		}
	}
}

// Collect implements prometheus.Collector.
func (p *process) Collect(out chan<- prometheus.Metric) {
	values := p.of()
	for _, f := range processFamilies {
		if v, ok := values[f.Name]; ok {
			out <- prometheus.MustNewConstMetric(f.desc(), f.valueType(), v)
		}
	}
}
