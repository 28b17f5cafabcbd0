package app

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/headrace/headrace/consumers/ui"
	"github.com/headrace/headrace/internal/metrics"
)

// uiCounts counts the requests of browsers, for Prometheus.
type uiCounts struct {
	base   string // of all paths, with slashes around
	next   http.Handler
	routes []atomic.Uint64 // by place in metrics.UIRoutes
	failed atomic.Uint64
}

func newUICounts(base string, next http.Handler) *uiCounts {
	return &uiCounts{base: strings.TrimSuffix("/"+trimmed(base), "/") + "/", next: next, routes: make([]atomic.Uint64, len(metrics.UIRoutes))}
}

// ServeHTTP passes a request on, and counts it.
func (u *uiCounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.routes[slices.Index(metrics.UIRoutes, u.route(r.URL.Path))].Add(1)
	u.next.ServeHTTP(&uiAnswer{w, u}, r)
}

// route is what a path is for: one of metrics.UIRoutes, whatever a browser asks.
func (u *uiCounts) route(path string) string {
	path, ours := strings.CutPrefix(path, u.base)
	if !ours {
		return "other"
	}
	api, ok := strings.CutPrefix(path, "api/")
	if !ok {
		return "file"
	}
	parts := strings.Split(api, "/")
	switch {
	case len(parts) == 1 && (api == "runs" || api == "version"):
		return api
	case parts[0] != "runs":
		return "other"
	case len(parts) == 2:
		return "run"
	case len(parts) == 4 && parts[2] == "groups":
		return "group"
	case parts[2] == "trajectories":
		return "trajectory"
	case slices.Contains([]string{"steps", "series", "events", "groups", "deadletters", "trace"}, parts[2]):
		return parts[2]
	}
	return "other"
}

// uiAnswer notes whether an answer is a failure.
type uiAnswer struct {
	http.ResponseWriter
	counts *uiCounts
}

// WriteHeader implements http.ResponseWriter.
func (a *uiAnswer) WriteHeader(status int) {
	if status >= http.StatusInternalServerError {
		a.counts.failed.Add(1)
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *uiAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// page are the numbers of the server, as they are when Prometheus asks.
func (u *uiCounts) page(server *ui.Server) *metrics.Asked {
	return &metrics.Asked{From: metrics.FromUI, Read: func() map[string]map[string]float64 {
		requests, held := map[string]float64{}, server.Held()
		for i, route := range metrics.UIRoutes {
			requests[route] = float64(u.routes[i].Load())
		}
		one := func(n float64) map[string]float64 { return map[string]float64{"": n} }
		return map[string]map[string]float64{
			"headrace_ui_requests_total":        requests,
			"headrace_ui_requests_failed_total": one(float64(u.failed.Load())),
			"headrace_ui_streams_open":          one(float64(held.Streams)),
			"headrace_ui_runs_open":             one(float64(held.Runs)),
			"headrace_ui_index_bytes":           one(float64(held.IndexBytes)),
			"headrace_ui_index_trajectories":    one(float64(held.Trajectories)),
		}
	}}
}
