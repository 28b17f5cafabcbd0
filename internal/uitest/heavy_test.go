//go:build browser

package uitest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// instead serves the pages with another answer for the paths that contain a word.
func instead(t *testing.T, base, word string, body any) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/api/") || !strings.Contains(r.URL.Path, word) {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

type fields = map[string]any

// trajectory is the answer for one of n tokens in one segment, half of them sampled.
func trajectory(n int) fields {
	tokens, pieces, logprobs := make([]int, n), make([]string, n), make([]float64, n/2)
	for i := range n {
		tokens[i], pieces[i] = i%5000, []string{" word", "\n", " größe", " שלום"}[i%4]
	}
	for i := range logprobs {
		logprobs[i] = -float64(i%70) / 10
	}
	span := fields{"start": n - n/2, "end": n, "version": 3}
	return fields{"id": "g/0/0", "kind": "train", "environment": "e", "seed": 1, "status": "succeeded", "reward": 1, "sampling": fields{"temperature": 1},
		"started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:00:09Z", "turns": []any{}, "turn_seconds": []any{}, "messages": []any{}, "step": 1, "used": true,
		"segments": []fields{{"tokens": tokens, "logprobs": logprobs, "loss_mask": [][]int{{n - n/2, n}}, "versions": []fields{span}, "parent": -1, "shared": 0}},
		"text":     []fields{{"segment": 0, "pieces": pieces}}, "address": fields{"seq": 1, "index": 0}, "bytes": 9, "commands": fields{}}
}

// longTrajectory: 32k tokens are on the page as a
// screenful, and neither another colour nor a leap to the end takes long.
func longTrajectory(t *testing.T, w world) {
	tab := visit(t, w, instead(t, w.base, "/trajectories/", trajectory(32<<10)), "/r/"+w.run+"/t/g/0/0")
	if err := tab.See("tokens", `document.querySelector(".token-text b")`); err != nil {
		t.Fatal(err)
	}
	type result struct{ Nodes, Colour, Leap float64 }
	got, err := Ask[result](tab, `(async () => {
		const frame = () => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
		const text = document.querySelector(".token-text");
		let t0 = performance.now();
		document.querySelector("input[value=logprob]").click();
		await frame();
		const colour = performance.now() - t0;
		text.focus();
		t0 = performance.now();
		text.dispatchEvent(new KeyboardEvent("keydown", {key: "End", bubbles: true}));
		await frame();
		return {Nodes: document.querySelectorAll("*").length, Colour: colour, Leap: performance.now() - t0};
	})()`)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("32k tokens: %.0f elements; another colour after %.0f ms, the last token after %.0f ms", got.Nodes, got.Colour, got.Leap)
	if got.Nodes > 8000 {
		t.Errorf("%.0f elements for a screenful of tokens", got.Nodes)
	}
	if got.Colour > 1500 || got.Leap > 1500 {
		t.Errorf("slow: another colour took %.0f ms, a leap to the end %.0f ms", got.Colour, got.Leap)
	}
	if err := tab.See("the last token, in view", `(() => {
		const box = document.querySelector(".token-text").getBoundingClientRect(), b = document.querySelector(".token-text b.at")?.getBoundingClientRect();
		return b && b.top >= box.top && b.bottom <= box.bottom + 1;
	})()`); err != nil {
		t.Error(err)
	}
}

// hostileBytes: what a producer wrote is text, however
// it looks, and numbers that contradict each other break nothing.
func hostileBytes(t *testing.T, w world) {
	evil := trajectory(40)
	const script = `<img src=x onerror="window.caught=1"><script>window.caught=1</script>`
	evil["status"], evil["reason"], evil["reward"], evil["environment"] = "failed", script, nil, "__proto__"
	evil["components"] = fields{script: nil, "constructor": 1e308}
	evil["task"] = script
	evil["segments"] = append(evil["segments"].([]fields), fields{"tokens": []int{1, 2, 3}, "logprobs": []any{nil, 0.5}, "loss_mask": [][]int{{-7, 1 << 30}},
		"versions": []fields{{"start": -3, "end": 1 << 30, "version": 9}, {"start": 2, "end": 1, "version": -4}}, "parent": 1, "shared": 99})
	evil["turns"] = []fields{{"segment": 7, "prompt": []int{5, 1}, "completion": []int{0, 1 << 30}, "cached": -1, "finish": script, "reward": nil}}
	evil["turn_seconds"] = []fields{{"queued": nil, "generate": -5, "environment": 1e300}}
	evil["messages"] = []fields{{"role": script, "content": script}, {"role": "assistant", "content": "<think>" + strings.Repeat("<tool_call>{", 5000)},
		{"role": "tool", "name": script, "content": `{"a": [` + strings.Repeat("[", 3000)}, {"role": "assistant", "content": strings.Repeat("\u202e\u2067שלום ", 200_000)}, {"role": "", "content": ""}}
	for _, v := range []View{Laptop, Phone} {
		tab := visit(t, w, instead(t, w.base, "/trajectories/", evil), "/r/"+w.run+"/t/g/0/0")
		if err := tab.Show(v); err != nil {
			t.Fatal(err)
		}
		if err := tab.See("the trajectory", see("Trajectory g/0/0")+` && document.querySelectorAll(".token-text").length === 2`); err != nil {
			t.Fatal(err, tab.Faults())
		}
		faults, err := tab.Inspect()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range faults {
			t.Errorf("%d px: %s", v.Width, f)
		}
		if caught, err := Ask[bool](tab, `"caught" in window`); err != nil || caught {
			t.Errorf("a script of a trajectory ran (%v)", err)
		}
		picture(t, tab, "hostile")
	}
}
