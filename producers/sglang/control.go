package sglang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/subjects"
)

// PauseMode says what becomes of requests in flight when weights change.
type PauseMode string

// The modes of /pause_generation.
const (
	PauseRetract PauseMode = "retract"  // recomputed under the new weights
	PauseInPlace PauseMode = "in_place" // go on with the cache of the old ones
	PauseAbort   PauseMode = "abort"    // given up; their callers try again
)

// ModelInfo is what an engine says of itself.
type ModelInfo struct {
	// Version is the policy version it serves; NoVersion when it has no
	// weights or weights of nobody's version.
	Version subjects.PolicyVersion
	// SHA256 of the weights' file, lower-case hex; empty where the engine does
	// not say.
	SHA256 string
	// Vocab and Context are its sizes; 0 where the engine does not say.
	Vocab, Context int
}

type wireInfo struct {
	WeightVersion any    `json:"weight_version"`
	SHA256        string `json:"sha256"`
	Vocab         int    `json:"vocab_size"`
	MaxContext    int    `json:"max_context"`
	ContextLength int    `json:"context_length"`
}

// Info asks which weights the engine serves.
func (c *Client) Info(ctx context.Context) (ModelInfo, error) {
	var w wireInfo
	err := c.call(ctx, http.MethodGet, "/get_model_info", nil, &w)
	if errors.Is(err, producers.ErrBadRequest) { // newer SGLang dropped the verb
		err = c.call(ctx, http.MethodGet, "/model_info", nil, &w)
	}
	if err != nil {
		return ModelInfo{Version: subjects.NoVersion}, err
	}
	info := ModelInfo{Version: subjects.NoVersion, SHA256: w.SHA256, Vocab: w.Vocab, Context: max(w.MaxContext, w.ContextLength)}
	if number, err := strconv.ParseInt(fmt.Sprint(w.WeightVersion), 10, 32); err == nil && number >= 0 {
		info.Version = subjects.PolicyVersion(number)
	}
	return info, nil
}

// Healthy asks whether the engine is up and can generate.
func (c *Client) Healthy(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/health_generate", nil, nil)
}

// Alive asks whether the engine's process answers.
func (c *Client) Alive(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/health", nil, nil)
}

// Pause stops generation; Continue goes on with it.
func (c *Client) Pause(ctx context.Context, mode PauseMode) error {
	return c.call(ctx, http.MethodPost, "/pause_generation", map[string]any{"mode": mode}, nil)
}

// Continue goes on after Pause.
func (c *Client) Continue(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/continue_generation", map[string]any{}, nil)
}

// UpdateWeights loads the weights of a version from a folder that the engine
// can read. The engine should be paused, and flushed afterwards.
func (c *Client) UpdateWeights(ctx context.Context, dir string, version subjects.PolicyVersion) error {
	var w struct {
		Success bool   `json:"success"`
		Message string `json:"message"`
	}
	body := map[string]any{"model_path": dir, "weight_version": strconv.FormatInt(int64(version), 10)}
	if err := c.call(ctx, http.MethodPost, "/update_weights_from_disk", body, &w); err != nil {
		return err
	}
	if !w.Success {
		return fmt.Errorf("%w: engine %s: %s", producers.ErrBadAnswer, c.opts.Name, w.Message)
	}
	return nil
}

// Flush drops the prefix cache, whose entries are of older weights.
func (c *Client) Flush(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/flush_cache", map[string]any{}, nil)
}

// call makes one of the rare calls; out may be nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("engine %s: %s: %w", c.opts.Name, path, err)
		}
	}
	answer := takeBuffer()
	defer giveBuffer(answer)
	if err := c.do(ctx, method, path, body, answer); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Bytes(), out); err != nil {
		return fmt.Errorf("%w: engine %s: %s: %v", producers.ErrBadAnswer, c.opts.Name, path, err)
	}
	return nil
}

// probeTimeout bounds the probe's one call.
const probeTimeout = 2 * time.Minute

// Probe asks for one token and finds out whether the engine answers with token
// ids, logprobs of equal length and a policy version. An engine that cannot is
// refused with one line that says so (ErrBadAnswer); one that is not up yet is
// ErrUnavailable.
func (c *Client) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := c.Generate(ctx, producers.Request{Session: "probe", IDs: []int32{1}, Sampling: subjects.Sampling{Temperature: 1, MaxNewTokens: 1}})
	if errors.Is(err, producers.ErrBadAnswer) || errors.Is(err, producers.ErrBadRequest) {
		return fmt.Errorf("engine %s cannot be used for training, which needs token ids and their logprobs: %w", c.base, err)
	}
	return err
}
