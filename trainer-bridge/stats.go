package trainerbridge

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/trainer-bridge/layout"
)

// stats are the bridge's counts. They only grow.
type stats struct {
	spans bridgeSpans

	inspected, inspectedBytes, rejected       atomic.Int64
	forged, forgedBytes, copies, unreadable   atomic.Int64
	bodiless, swept                           atomic.Int64
	fetchedBytes, usedBytes                   atomic.Int64
	batches, rows, tokens, bytes, overflowed  atomic.Int64
	fillNanos, waitNanos                      atomic.Int64
	delivered, committed, checkpoint, version atomic.Int64
	rolloutBytes, rolloutLimit                atomic.Int64
	trainerSpans, trainerSpansDropped         atomic.Int64

	mu   sync.Mutex
	text string // what the trainer last said of its progress
}

func (s *stats) built(f layout.Filled, took time.Duration) {
	s.batches.Add(1)
	s.rows.Add(int64(f.Rows))
	s.tokens.Add(int64(f.Tokens))
	s.bytes.Add(int64(f.Bytes))
	s.overflowed.Add(int64(f.Overflowed))
	s.fillNanos.Add(int64(took))
}

func (s *stats) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

func (s *stats) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// values are the gauges of docs/metrics: totals since the bridge started.
func (s *stats) values() map[string]float64 {
	return map[string]float64{
		"inspected_trajectories_total": float64(s.inspected.Load()),
		"inspected_bytes_total":        float64(s.inspectedBytes.Load()),
		"rejected_trajectories_total":  float64(s.rejected.Load()),
		"forged_trajectories_total":    float64(s.forged.Load()),
		"forged_bytes_total":           float64(s.forgedBytes.Load()),
		"copied_trajectories_total":    float64(s.copies.Load()),
		"unreadable_total":             float64(s.unreadable.Load()),
		"letters_without_body_total":   float64(s.bodiless.Load()),
		"letters_swept_total":          float64(s.swept.Load()),
		"fetched_bytes_total":          float64(s.fetchedBytes.Load()),
		"used_bytes_total":             float64(s.usedBytes.Load()),
		"batches_total":                float64(s.batches.Load()),
		"rows_total":                   float64(s.rows.Load()),
		"tokens_total":                 float64(s.tokens.Load()),
		"batch_bytes_total":            float64(s.bytes.Load()),
		"rows_overflowed_total":        float64(s.overflowed.Load()),
		"build_seconds_total":          time.Duration(s.fillNanos.Load()).Seconds(),
		"trainer_wait_seconds_total":   time.Duration(s.waitNanos.Load()).Seconds(),
		"delivered_step":               float64(s.delivered.Load()),
		"committed_step":               float64(s.committed.Load()),
		"checkpoint_step":              float64(s.checkpoint.Load()),
		"published_version":            float64(s.version.Load()),
		"trainer_spans_total":          float64(s.trainerSpans.Load()),
		"trainer_spans_dropped_total":  float64(s.trainerSpansDropped.Load()),
		"rollouts_bytes":               float64(s.rolloutBytes.Load()),
		"rollouts_limit_bytes":         float64(s.rolloutLimit.Load()),
		"fetched_per_used_byte":        ratio(s.inspectedBytes.Load()+s.fetchedBytes.Load(), s.usedBytes.Load()),
	}
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
