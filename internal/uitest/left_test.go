//go:build browser

package uitest

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/runtime"
)

// hasty is the pages' server but for its events, which come at the speed of the
// socket: hours of a run in seconds. One point is left out, at gap.
type hasty struct {
	http.Handler
	state   map[string]any
	send    chan int // how many more points to send
	gap     int
	refills atomic.Int64 // times that the series was asked for
}

func newHasty(t *testing.T, base, run string) *hasty {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	h := &hasty{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}, send: make(chan int)}
	answer, err := http.Get(base + "/api/runs/" + run)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err == nil {
		err = json.Unmarshal(body, &h.state)
	}
	if err != nil {
		t.Fatalf("state of %s: %v", run, err)
	}
	delete(h.state, "reading") // if it still was
	return h
}

func (h *hasty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/events"):
		h.events(w, r)
	case strings.HasSuffix(r.URL.Path, "/series"):
		h.refills.Add(1)
		_, _ = io.WriteString(w, `{"columns":{"at":[]}}`)
	default:
		h.Handler.ServeHTTP(w, r)
	}
}

// events sends points, with every twentieth a step and with every fiftieth the
// state, as the contract has them.
func (h *hasty) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	id, n := 0, 0
	put := func(event string, v any) {
		id++
		data, _ := json.Marshal(v)
		_, _ = fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", id, event, data)
		w.(http.Flusher).Flush()
	}
	put("state", h.state)
	for {
		more := 0
		select {
		case <-r.Context().Done():
			return
		case more = <-h.send:
		}
		for range more {
			n++
			if n == h.gap {
				continue
			}
			put("point", point(n))
			if n%20 == 0 {
				put("steps", step(n/20))
			}
			if n%50 == 0 {
				h.state["step"] = map[string]any{"committed": n, "cut": n, "max": 0}
				put("state", h.state)
			}
		}
	}
}

func point(n int) map[string]any {
	wave := 1 + math.Sin(float64(n)/50)
	return map[string]any{"n": n, "at": 1_800_000_000 + n, "trajectories_per_second": 5 * wave, "tokens_per_second": 900 * wave, "trained_tokens_per_second": 800 * wave,
		"trainer_wait": wave / 2, "engine_busy": wave / 2, "open_groups": n % 13, "kept_groups": n % 7, "batches_ready": n % 3, "in_flight": n % 31, "staleness": wave}
}

func step(n int) map[string]any {
	one := func(v float64) []float64 { return []float64{v} }
	return map[string]any{"columns": map[string]any{"step": []int{n}, "at": []int{1_800_000_000 + 20*n}, "reward": one(math.Mod(float64(n), 10) / 10), "reward_std": one(.3), "groups": one(8), "rows": one(64),
		"tokens": one(9000), "staleness_mean": one(.5), "staleness_max": one(1), "train_seconds": one(2), "wait_seconds": one(1), "zero_variance": one(3), "committed": []bool{true},
		"metrics": map[string]any{"loss": one(1 / float64(n)), "kl": one(.01)}}}
}

// weight is what a page holds after the garbage is gone.
type weight struct{ heap, nodes, listeners float64 }

func weigh(t *testing.T, tab *Tab) weight {
	t.Helper()
	for range 2 {
		if _, err := Call(tab, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	heap, err := Call(tab, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	dom, err := Call(tab, memory.GetDOMCounters, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	return weight{heap.UsedSize / 1e6, float64(dom.Nodes), float64(dom.JsEventListeners)}
}

// leftOpen is a browser left open for
// hours: the page shows the last of thousands of events, asks for what a gap hid,
// and holds no more than it did after the first thousand.
func leftOpen(t *testing.T, w world) {
	h := newHasty(t, w.base, w.run)
	server := httptest.NewServer(h)
	defer server.Close()
	tab, end, err := NewTab(w.browser, server.URL, Laptop)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	defer server.CloseClientConnections()
	if err := tab.Open("/r/" + w.run); err != nil {
		t.Fatal(err)
	}
	const warm, more = 500, 4500
	h.gap = warm + more + 5
	sent := 0
	feed := func(n int) {
		t.Helper()
		h.send <- n
		sent += n
		shown := sent / 50 * 50
		if err := tab.See("the last event", fmt.Sprintf(`document.querySelector("main").innerText.includes((%d).toLocaleString("en-US"))`, shown)); err != nil {
			t.Fatal(err, tab.Faults())
		}
	}
	feed(warm)
	before, asked := weigh(t, tab), h.refills.Load()
	for range more / 500 {
		feed(500)
	}
	after := weigh(t, tab)
	t.Logf("after %d events %.1f MB, %.0f nodes, %.0f listeners; after %d %.1f MB, %.0f nodes, %.0f listeners", warm, before.heap, before.nodes, before.listeners, sent, after.heap, after.nodes, after.listeners)
	if after.heap > before.heap*1.2+4 || after.nodes > before.nodes*1.2+200 || after.listeners > before.listeners*1.2+50 {
		t.Errorf("the page grows: %+v after %d events, %+v after %d", before, warm, after, sent)
	}
	if h.refills.Load() != asked {
		t.Errorf("the series was asked for %d times with no gap", h.refills.Load()-asked)
	}
	feed(50) // the gap is among them
	if err := tab.See("the end of the gap", fmt.Sprintf(`performance.getEntriesByType("resource").filter((r) => r.name.includes("/series")).length > %d`, asked)); err != nil {
		t.Errorf("a gap in the points is not noticed: %v", err)
	}
	if faults := tab.Faults(); len(faults) > 0 {
		t.Errorf("while left open: %v", faults)
	}
}
