package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/metrics"
)

func TestUICounts_EveryPathIsOfARouteOfTheTable(t *testing.T) {
	for base, inside := range map[string]string{"": "/", "/": "/", "/x/": "/x/", "x/y": "/x/y/"} {
		u := newUICounts(base, http.NotFoundHandler())
		for path, want := range map[string]string{
			"": "file", "lib/app.js": "file", "r/lake/groups/t1": "file", "api/version": "version", "api/runs": "runs", "api/runs/lake": "run", "api/runs/lake/steps": "steps",
			"api/runs/lake/series": "series", "api/runs/lake/events": "events", "api/runs/lake/groups": "groups", "api/runs/lake/groups/t1": "group",
			"api/runs/lake/trajectories/t1/0/0": "trajectory", "api/runs/lake/deadletters": "deadletters", "api/runs/lake/deadletters/3": "deadletters",
			"api/runs/lake/trace": "trace", "api/runs/lake/mine": "other", "api/mine": "other", "api/": "other", "api/runs/a/b/c/d/e/f": "other",
		} {
			if got := u.route(inside + path); got != want || !slices.Contains(metrics.UIRoutes, got) {
				t.Errorf("%s%s is of the route %s, want %s", inside, path, got, want)
			}
		}
	}
	u := newUICounts("/x/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "bad") {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	}))
	for _, path := range []string{"/x/bad", "/x/good", "/elsewhere"} {
		u.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	if n := u.failed.Load(); n != 1 {
		t.Errorf("%d failures, want 1", n)
	}
}

// addresses are where a log says that metrics are served.
type addresses chan string

func (a addresses) Write(line []byte) (int, error) {
	var said struct{ Address, Message string }
	if json.Unmarshal(line, &said) == nil && said.Message == "metrics are served" {
		a <- said.Address
	}
	return len(line), nil
}

// TestUI_ServesItsOwnNumbers: what browsers asked for, and what is held for them.
func TestUI_ServesItsOwnNumbers(t *testing.T) {
	root := t.TempDir()
	restingRun(t, root)
	dir := runDir(filepath.Join(root, string(testRun)))
	server, err := bus.StartServer(t.Context(), bus.ServerOptions{StoreDir: dir.store(), CredentialsFile: dir.credentials()}) // it is live
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	ctx, stop := context.WithCancel(limited(t))
	said, at, ended := make(chan string, 1), make(addresses, 1), make(chan error, 1)
	go func() {
		ended <- UI(ctx, Source{Root: root, Log: zerolog.Nop()}, UIOptions{Listen: "127.0.0.1:0", Base: "/", NoToken: true, Metrics: "127.0.0.1:0",
			Log: zerolog.New(at), Said: func(a, _ string) { said <- a }})
	}()
	page := <-said
	own := strings.TrimSuffix(strings.TrimPrefix(<-at, "http://"), "/metrics")
	served(ctx, t, own, "headrace_ui_runs_open 0", "headrace_ui_index_trajectories 0", "headrace_ui_streams_open 0", `headrace_ui_requests_total{route="group"} 0`)
	get := func(path string) (hangUp func()) {
		t.Helper()
		res, err := http.Get(page + path)
		if err != nil {
			t.Fatal(err)
		}
		return func() { _ = res.Body.Close() }
	}
	listening := get("api/runs/" + string(testRun) + "/events") // the run is open as long
	for _, path := range []string{"api/runs/" + string(testRun) + "/groups", "api/runs/nowhere", "app.js"} {
		get(path)()
	}
	served(ctx, t, own, "headrace_ui_runs_open 1", "headrace_ui_streams_open 1", `headrace_ui_requests_total{route="events"} 1`,
		`headrace_ui_requests_total{route="groups"} 1`, `headrace_ui_requests_total{route="run"} 1`, `headrace_ui_requests_total{route="file"} 1`)
	listening()
	served(ctx, t, own, "headrace_ui_streams_open 0", "headrace_build_info{", "go_goroutines", "headrace_ui_requests_failed_total")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + own + "/metrics"); err == nil {
		t.Error("the metrics are served although the page is not")
	}
}
