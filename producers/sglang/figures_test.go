package sglang

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
)

// pageOfAnEngine is the kind of page that SGLang has: series by kind of request
// and cache, ranks, histograms.
const pageOfAnEngine = `# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="a \"b\" {c}",pp_rank="0",tp_rank="0",dp_rank="0"} 3.0
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="1",dp_rank="0"} 3.0
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0",dp_rank="1"} 4.0
sglang:num_queue_reqs{tp_rank="0"} 7 1690000000000
sglang:token_usage{tp_rank="0",dp_rank="0"} 0.25
sglang:token_usage{tp_rank="0",dp_rank="1"} 0.75
sglang:prompt_tokens_total{model_name="m"} 1.5e+03
sglang:cached_tokens_total{cache_source="device"} 900
sglang:cached_tokens_total{cache_source="host"} 100
sglang:generation_tokens_total 200
sglang:generation_tokens_created 1.7e9
sglang:num_requests_total{} NaN
sglang:num_aborted_requests_total{x=" 5
sglang:time_to_first_token_seconds_bucket{le="+Inf"} 12
headrace:device_seconds_total -1
headrace:device_rows_total
headrace:device_calls_total{model_name="m"} +Inf
 sglang:num_requests_total 3
`

func TestParseFigures_ReadsWhatEnginesWrite(t *testing.T) {
	got := parseFigures([]byte(pageOfAnEngine))
	want := Figures{"running": 7, "waiting": 7, "token_usage": 0.75, "tokens_prompt": 1500, "tokens_cached": 1000, "tokens_sampled": 200}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzFigures(f *testing.F) {
	f.Add([]byte(pageOfAnEngine))
	f.Add([]byte("sglang:token_usage{} 1e999\nsglang:token_usage{}"))
	f.Add([]byte("sglang:token_usage} {"))
	f.Fuzz(func(t *testing.T, page []byte) {
		for name, v := range parseFigures(page) {
			if !(v >= 0) || v > 1e308*1.7 {
				t.Fatalf("%s is %v", name, v)
			}
		}
	})
}

func newClient(t *testing.T, s *sglangtest.Server) *Client {
	t.Helper()
	c, err := New(Options{URL: s.URL, Name: "e1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestClient_FiguresAreBoundedAndMayBeMissing(t *testing.T) {
	s := sglangtest.Start(t, "1")
	c := newClient(t, s)
	if _, err := c.Figures(t.Context()); !errors.Is(err, ErrNoPage) {
		t.Errorf("%v, want ErrNoPage", err)
	}
	if _, err := c.Batches(t.Context(), BatchPlace{}); !errors.Is(err, ErrNoPage) {
		t.Errorf("%v, want ErrNoPage", err)
	}
	s.Page = func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(pageOfAnEngine)) }
	if got, err := c.Figures(t.Context()); err != nil || got["running"] != 7 {
		t.Errorf("%v, %v", got, err)
	}
	s.Page = func(w http.ResponseWriter, r *http.Request) {
		for range 5 {
			_, _ = w.Write([]byte(strings.Repeat("x", 1<<20)))
		}
	}
	if _, err := c.Figures(t.Context()); !errors.Is(err, producers.ErrBadAnswer) {
		t.Errorf("5 MB: %v, want ErrBadAnswer", err)
	}
	s.Page = func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Figures(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
}

func TestClient_BatchesOfAnotherClock(t *testing.T) {
	s := sglangtest.Start(t, "1")
	c := newClient(t, s)
	answer := func(change func(*wireBatches)) {
		s.Page = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("after") != "7" || r.URL.Query().Get("boot") != "b" {
				http.Error(w, "place", http.StatusBadRequest)
				return
			}
			now := time.Now().UnixNano()
			a := wireBatches{Boot: "b", Now: now, Next: 8, Start: []int64{now - 50}, Duration: []int64{40}, Rows: []int64{3}, Tokens: []int64{24}, Prefill: []int64{1}}
			change(&a)
			_ = json.NewEncoder(w).Encode(a)
		}
	}
	place := BatchPlace{Boot: "b", After: 7}
	answer(func(*wireBatches) {})
	b, err := c.Batches(t.Context(), place)
	if err != nil || b.Place.After != 8 || b.Offset != 0 || len(b.Batches) != 1 || b.Batches[0].Rows != 3 || !b.Batches[0].Prefill {
		t.Errorf("%+v, %v", b, err)
	}
	answer(func(a *wireBatches) { a.Now -= 3e9; a.Start[0] -= 3e9 })
	b, err = c.Batches(t.Context(), place)
	if err != nil || (b.Offset-3*time.Second).Abs() > b.Uncertainty || b.Uncertainty <= 0 {
		t.Errorf("%+v, %v", b, err)
	}
	for name, spoil := range map[string]func(*wireBatches){
		"columns":  func(a *wireBatches) { a.Rows = nil },
		"future":   func(a *wireBatches) { a.Start[0] = a.Now + 1 },
		"overflow": func(a *wireBatches) { a.Now = -1 << 62 },
		"past":     func(a *wireBatches) { a.Start[0] = 5 },
		"negative": func(a *wireBatches) { a.Duration[0] = -1 },
		"boot":     func(a *wireBatches) { a.Boot = strings.Repeat("x", 100) },
	} {
		answer(spoil)
		if _, err := c.Batches(t.Context(), place); !errors.Is(err, producers.ErrBadAnswer) {
			t.Errorf("%s: %v, want ErrBadAnswer", name, err)
		}
	}
}
