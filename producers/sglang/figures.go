package sglang

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/producers"
)

// ErrNoPage is wrapped by [Client.Figures] and [Client.Batches] where the engine
// has no such page.
var ErrNoPage = errors.New("the engine has no such page")

// Bounds of what an engine may say of itself. A page of a real engine is mostly
// histograms: some 200 KB.
const (
	maxFigures = 4 << 20
	maxBatches = 1 << 20
	mostRows   = 8192
)

// Figures are what an engine says of itself, by the names of the gauges that
// are made of them. What its page does not have is not in the map.
type Figures map[string]float64

// figure says how the series of a metric become one figure.
type figure struct {
	name string
	fold func(a, b float64) float64
}

func sum(a, b float64) float64 { return a + b }

// figures are the metrics that are read: SGLang's, and those of our own engine.
// A counter may have a series for each kind of request or cache, a gauge one for
// each data-parallel replica: load adds up, of fullness the worst counts.
var figures = map[string]figure{
	"sglang:num_running_reqs":            {"running", sum},
	"sglang:num_queue_reqs":              {"waiting", sum},
	"sglang:token_usage":                 {"token_usage", math.Max},
	"sglang:prompt_tokens_total":         {"tokens_prompt", sum},
	"sglang:cached_tokens_total":         {"tokens_cached", sum},
	"sglang:generation_tokens_total":     {"tokens_sampled", sum},
	"sglang:num_requests_total":          {"requests", sum},
	"sglang:num_aborted_requests_total":  {"aborted", sum},
	"headrace:paused":                    {"paused", math.Max},
	"headrace:device_seconds_total":      {"device_seconds", sum},
	"headrace:device_calls_total":        {"device_calls", sum},
	"headrace:device_rows_total":         {"device_rows", sum},
	"headrace:device_row_capacity_total": {"device_row_capacity", sum},
}

// Figures reads the engine's metrics page.
func (c *Client) Figures(ctx context.Context) (Figures, error) {
	page, err := c.page(ctx, "/metrics", maxFigures)
	if err != nil {
		return nil, err
	}
	return parseFigures(page), nil
}

// page reads a page of bounded size; the bytes are the caller's.
func (c *Client) page(ctx context.Context, path string, most int64) ([]byte, error) {
	var answer bytes.Buffer
	err := c.doUpTo(ctx, http.MethodGet, path, nil, &answer, most)
	switch {
	case err == nil:
		return answer.Bytes(), nil
	case errors.Is(err, producers.ErrBadRequest): // 404, and 405 where the path means something else
		return nil, fmt.Errorf("%w: %s: %w", ErrNoPage, path, err)
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// parseFigures reads Prometheus text. Lines that are not understood are passed
// over: a figure is worth no quarrel.
func parseFigures(page []byte) Figures {
	out := Figures{}
	for line := range bytes.Lines(page) {
		f, wanted := figures[string(line[:max(bytes.IndexAny(line, "{ \t"), 0)])]
		if !wanted {
			continue
		}
		labels, value, ok := parseSeries(line)
		if !ok || otherRank(labels) {
			continue
		}
		if before, seen := out[f.name]; seen {
			value = f.fold(before, value)
		}
		out[f.name] = value
	}
	for name, v := range out {
		if math.IsInf(v, 0) {
			delete(out, name)
		}
	}
	return out
}

// parseSeries reads what follows the name in a line: labels in braces, a value,
// and maybe a time.
func parseSeries(line []byte) (labels string, value float64, ok bool) {
	rest := string(line[bytes.IndexAny(line, "{ \t"):])
	if rest[0] == '{' {
		last := strings.LastIndexByte(rest, '}')
		if last < 0 {
			return "", 0, false
		}
		labels, rest = rest[1:last], rest[last+1:]
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return "", 0, false
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	return labels, value, err == nil && value >= 0 && !math.IsInf(value, 0)
}

// otherRank reports whether a series is that of a tensor- or pipeline-parallel
// rank but the first: all of them tell of the same requests.
func otherRank(labels string) bool {
	for _, rank := range []string{`tp_rank="`, `pp_rank="`} {
		if _, after, found := strings.Cut(labels, rank); found && !strings.HasPrefix(after, `0"`) {
			return true
		}
	}
	return false
}

// BatchPlace is where a reader of an engine's batches is.
type BatchPlace struct {
	Boot  string // of the process that it reads
	After uint64 // the number of the last one that it has
}

// DeviceBatch is a device call: Start Unix nanoseconds by the engine's clock.
type DeviceBatch struct {
	Start, Duration int64
	Rows, Tokens    int64
	Prefill         bool
}

// Batches are an engine's device calls since a place.
type Batches struct {
	Place   BatchPlace
	Lost    uint64 // between the places: the engine remembers no more
	Batches []DeviceBatch
	// Offset is how far the caller's clock is ahead of the engine's, Uncertainty
	// by how much that may be wrong; both 0 when it may well be the same clock.
	Offset, Uncertainty time.Duration
}

type wireBatches struct {
	Boot     string  `json:"boot"`
	Now      int64   `json:"now"`
	Next     uint64  `json:"next"`
	Lost     uint64  `json:"lost"`
	Start    []int64 `json:"start"`
	Duration []int64 `json:"duration"`
	Rows     []int64 `json:"rows"`
	Tokens   []int64 `json:"tokens"`
	Prefill  []int64 `json:"prefill"`
}

// Batches asks our own engine for its device calls since a place.
func (c *Client) Batches(ctx context.Context, since BatchPlace) (*Batches, error) {
	query := url.Values{"after": {strconv.FormatUint(since.After, 10)}, "boot": {since.Boot}}
	sent := time.Now()
	page, err := c.page(ctx, "/headrace/batches?"+query.Encode(), maxBatches)
	if err != nil {
		return nil, err
	}
	var w wireBatches
	if err := json.Unmarshal(page, &w); err != nil {
		return nil, fmt.Errorf("%w: engine %s: batches: %v", producers.ErrBadAnswer, c.opts.Name, err)
	}
	return w.batches(sent, time.Now())
}

// batches checks an answer; its clock was looked at between two times of ours.
func (w *wireBatches) batches(sent, got time.Time) (*Batches, error) {
	n := len(w.Start)
	if n > mostRows || slices.ContainsFunc([]int{len(w.Duration), len(w.Rows), len(w.Tokens), len(w.Prefill)}, func(k int) bool { return k != n }) || len(w.Boot) > 64 {
		return nil, fmt.Errorf("%w: %d batches in columns of unequal length", producers.ErrBadAnswer, n)
	}
	out := &Batches{Place: BatchPlace{w.Boot, w.Next}, Lost: w.Lost, Batches: make([]DeviceBatch, 0, n)}
	half := got.Sub(sent) / 2
	if ahead := time.Duration(sent.UnixNano() + int64(half) - w.Now); ahead.Abs() > half {
		out.Offset, out.Uncertainty = ahead, half
	}
	for i := range n {
		b := DeviceBatch{Start: w.Start[i], Duration: w.Duration[i], Rows: w.Rows[i], Tokens: w.Tokens[i], Prefill: w.Prefill[i] != 0}
		if b.Duration < 0 || b.Duration > int64(time.Hour) || b.Rows < 0 || b.Tokens < 0 || (b.Start-w.Now) > 0 || w.Now-b.Start > int64(24*time.Hour) {
			return nil, fmt.Errorf("%w: batch %d: %+v", producers.ErrBadAnswer, i, b)
		}
		out.Batches = append(out.Batches, b)
	}
	return out, nil
}
