// Package sglangtest is an engine without a model: SGLang's API as a test server
// that answers at once, and wrongly when a test wants that.
package sglangtest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// Request is the body of /generate.
type Request struct {
	RID           string  `json:"rid"`
	InputIDs      []int32 `json:"input_ids"`
	ReturnLogprob bool    `json:"return_logprob"`
	Sampling      struct {
		Temperature  float64  `json:"temperature"`
		TopP         *float64 `json:"top_p"`
		TopK         *int     `json:"top_k"`
		MaxNewTokens int      `json:"max_new_tokens"`
		Seed         uint64   `json:"sampling_seed"`
		StopTokenIDs []int32  `json:"stop_token_ids"`
	} `json:"sampling_params"`
}

// Server is one engine. Fields may be set before requests come; methods are
// safe at any time.
type Server struct {
	*httptest.Server // of Start; New has none
	// Handler is the API, for a server of the caller's own.
	Handler http.Handler
	// Answer, when set, makes the answer of /generate: true says that it did.
	Answer func(w http.ResponseWriter, r *http.Request, q Request) bool
	// Tokens are sampled, up to the limit, before the stop id. Default {5, 6}.
	Tokens []int32
	// Sample, when set, samples instead; it may take its time.
	Sample func(q Request) []int32
	// FailUpdate, when set, is why weights are not taken.
	FailUpdate string
	// Page, when set, answers /metrics and /headrace/batches, which are not
	// there otherwise.
	Page http.HandlerFunc

	mu      sync.Mutex
	version string // "" without weights
	sha     string
	paused  bool
	resumed chan struct{} // closed while not paused
	down    bool
	running int
	log     []string // paths called, in order
	aborted []string
}

// Start starts an engine that serves a version ("" none) until the test ends.
func Start(t testing.TB, version string) *Server {
	s := New(version)
	s.Server = httptest.NewServer(s.Handler)
	t.Cleanup(s.Close)
	return s
}

// New makes an engine that serves a version ("" none) wherever the caller
// serves its Handler.
func New(version string) *Server {
	s := &Server{Tokens: []int32{5, 6}, version: version, resumed: make(chan struct{})}
	close(s.resumed)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /generate", s.generate)
	mux.HandleFunc("POST /abort_request", s.abort)
	mux.HandleFunc("POST /pause_generation", s.pause)
	mux.HandleFunc("POST /continue_generation", s.resume)
	mux.HandleFunc("POST /update_weights_from_disk", s.update)
	mux.HandleFunc("POST /flush_cache", s.flush)
	mux.HandleFunc("GET /get_model_info", s.info)
	for _, path := range []string{"/metrics", "/headrace/batches"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if s.Page == nil {
				http.NotFound(w, r)
				return
			}
			s.Page(w, r)
		})
	}
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{}) })
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.log = append(s.log, r.URL.Path)
		down := s.down
		s.mu.Unlock()
		if down {
			Hangup(w)
			return
		}
		mux.ServeHTTP(w, r)
	})
	return s
}

// Hangup closes the connection without an answer, as a dying process does.
func Hangup(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// SetDown makes the engine hang up on everybody, or answer again.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Restart drops the weights, as a new process does.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.sha = "", ""
}

// State is what the engine serves and whether it is paused.
func (s *Server) State() (version string, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version, s.paused
}

// polls are asked for all the time.
var polls = []string{"/get_model_info", "/health", "/metrics", "/headrace/batches"}

// Log are the paths called so far, but for polls.
func (s *Server) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.log), func(path string) bool { return slices.Contains(polls, path) })
}

// Aborted are the request ids that /abort_request named.
func (s *Server) Aborted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.aborted)
}

func (s *Server) generate(w http.ResponseWriter, r *http.Request) {
	var q Request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		reply(w, 400, map[string]any{"error": err.Error()})
		return
	}
	s.mu.Lock()
	served, resumed := s.version, s.resumed
	s.running++
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.running--; s.mu.Unlock() }()
	if served == "" {
		reply(w, 503, map[string]any{"error": "no weights"})
		return
	}
	if s.Answer != nil && s.Answer(w, r, q) {
		return
	}
	select {
	case <-resumed:
	case <-r.Context().Done():
		return
	}
	tokens := s.Tokens
	if s.Sample != nil {
		tokens = s.Sample(q)
	}
	version, _ := s.State()
	reply(w, 200, Good(q, tokens, version))
}

// Good is a sound answer: tokens, then the stop id, cut to what was asked for.
func Good(q Request, tokens []int32, version string) map[string]any {
	ids := slices.Clone(tokens)
	finish := map[string]any{"type": "length", "length": q.Sampling.MaxNewTokens}
	if len(q.Sampling.StopTokenIDs) > 0 {
		ids = append(ids, q.Sampling.StopTokenIDs[0])
	}
	if len(ids) > q.Sampling.MaxNewTokens {
		ids = ids[:q.Sampling.MaxNewTokens]
	} else {
		finish = map[string]any{"type": "stop", "matched": ids[len(ids)-1]}
	}
	var probs [][]any
	for i, id := range ids {
		probs = append(probs, []any{-0.5 * float64(i+1), id, nil})
	}
	return map[string]any{"text": "", "output_ids": ids, "meta_info": map[string]any{
		"id": q.RID, "finish_reason": finish, "prompt_tokens": len(q.InputIDs), "weight_version": version,
		"weight_versions":       []map[string]any{{"version": version, "start": 0, "end": len(ids)}},
		"output_token_logprobs": probs, "completion_tokens": len(ids), "cached_tokens": len(q.InputIDs) - 1, "num_retractions": 0,
		"e2e_latency": 0.01,
	}}
}

func (s *Server) abort(w http.ResponseWriter, r *http.Request) {
	var q struct {
		RID string `json:"rid"`
	}
	_ = json.NewDecoder(r.Body).Decode(&q)
	s.mu.Lock()
	s.aborted = append(s.aborted, q.RID)
	s.mu.Unlock()
	reply(w, 200, map[string]any{"success": true})
}

func (s *Server) pause(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.paused {
		s.paused, s.resumed = true, make(chan struct{})
	}
	reply(w, 200, map[string]any{"status": "ok"})
}

func (s *Server) resume(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.paused {
		s.paused = false
		close(s.resumed)
	}
	reply(w, 200, map[string]any{"status": "ok"})
}

func (s *Server) update(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Path    string `json:"model_path"`
		Version string `json:"weight_version"`
	}
	_ = json.NewDecoder(r.Body).Decode(&q)
	s.mu.Lock()
	defer s.mu.Unlock()
	data, err := os.ReadFile(filepath.Join(q.Path, "model.safetensors"))
	if s.FailUpdate != "" || err != nil {
		reply(w, 400, map[string]any{"success": false, "message": fmt.Sprint(s.FailUpdate, err)})
		return
	}
	sum := sha256.Sum256(data)
	s.version, s.sha = q.Version, hex.EncodeToString(sum[:])
	reply(w, 200, map[string]any{"success": true, "message": "Succeeded to update model weights.", "num_paused_requests": 0})
}

func (s *Server) flush(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(200)
}

func (s *Server) info(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := map[string]any{"model_path": "/m", "is_generation": true, "weight_version": nil, "sha256": nil}
	if s.version != "" {
		body["weight_version"] = s.version
	}
	if s.sha != "" {
		body["sha256"] = s.sha
	}
	reply(w, 200, body)
}

// SetFailUpdate makes the engine refuse weights, or take them again ("").
func (s *Server) SetFailUpdate(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.FailUpdate = why
}

// Eventually waits until ok is true, and fails the test if it never is.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		}
	}
}
