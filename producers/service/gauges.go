package service

import (
	"context"
	"time"

	"github.com/headrace/headrace/subjects"
)

// Role is this service's name in telemetry.
const Role = "produce"

const gaugeInterval = time.Second

// report publishes the gauges every second and once more at the end. A gauge
// that gets lost is replaced by the next one.
func (s *service) report(ctx context.Context) error {
	ticker := time.NewTicker(gaugeInterval)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			s.gauge(true)
			return nil
		case <-ticker.C:
			s.gauge(n%holdingEvery == 0)
		}
	}
}

// reportSpans sends what the slots recorded. Spans that get lost are counted.
func (s *service) reportSpans(ctx context.Context) error {
	if err := s.spans.Run(ctx, s.conn, s.cfg.Run); err != nil {
		s.cfg.Log.Debug().Err(err).Msg("spans are not published")
	}
	return nil
}

// gauge reports once; holding says which tasks are held, too.
func (s *service) gauge(holding bool) {
	name, now := s.cfg.Player.Producer, time.Now()
	g := &subjects.Gauges{V: subjects.SchemaVersion, Role: Role, Instance: name, At: now.UnixNano(), Values: s.values()}
	if holding {
		g.Leases = s.held.oldest(now)
	}
	body, err := subjects.EncodeMessage(g)
	if err == nil {
		err = s.conn.Tell(s.cfg.Run.TelemetrySubject(Role, name), body)
	}
	if err != nil {
		s.cfg.Log.Debug().Err(err).Msg("gauges are not published")
	}
}

// values are the gauges. Counts and names in _seconds only grow, what has a
// state (live, held, waiting, in flight, limits) is of now.
func (s *service) values() map[string]float64 {
	p, engines, pub := s.player.Stats(), s.pool.Stats(), s.publisher.Stats()
	blocked := 0.0
	if pub.Blocked {
		blocked = 1
	}
	return map[string]float64{
		"slots":                  float64(s.cfg.Slots),
		"episodes_live":          float64(p.Live.Load()),
		"episodes_succeeded":     float64(p.Succeeded.Load()),
		"episodes_truncated":     float64(p.Truncated.Load()),
		"episodes_overlong":      float64(p.Overlong.Load()),
		"episodes_failed":        float64(p.Failed.Load()),
		"episodes_aborted":       float64(p.Aborted.Load()),
		"failed_engine":          float64(p.FailedEngine.Load()),
		"failed_environment":     float64(p.FailedEnvironment.Load()),
		"failed_other":           float64(p.FailedOther.Load()),
		"steps":                  float64(p.Steps.Load()),
		"calls":                  float64(p.Calls.Load()),
		"forks":                  float64(p.Forks.Load()),
		"leaked":                 float64(p.Leaked.Load()),
		"tokens_prompt":          float64(p.PromptTokens.Load()),
		"tokens_cached":          float64(p.CachedTokens.Load()),
		"tokens_sampled":         float64(p.SampledTokens.Load()),
		"engine_wait_seconds":    float64(p.EngineNanos.Load()) / 1e9,
		"env_wait_seconds":       float64(p.EnvNanos.Load()) / 1e9,
		"leases_held":            float64(s.held.count()),
		"leases_taken":           float64(s.counts.leased.Load()),
		"leases_returned":        float64(s.counts.returned.Load()),
		"published":              float64(s.counts.published.Load()),
		"unpublished":            float64(s.counts.unpublished.Load()),
		"publisher_waiting":      float64(pub.Waiting),
		"publisher_bytes":        float64(pub.PendingBytes),
		"publisher_bundles":      float64(pub.Bundles),
		"publisher_duplicates":   float64(pub.Duplicates),
		"publisher_retries":      float64(pub.Retries),
		"publisher_blocked":      blocked,
		"engines":                float64(engines.Engines),
		"engines_live":           float64(engines.Live),
		"engine_calls_in_flight": float64(engines.InFlight),
		"engine_calls_waiting":   float64(engines.Waiting),
		"engine_calls_limit":     float64(engines.Limit),
		"engine_retries":         float64(engines.Retries),
		"engine_overloads":       float64(engines.Overloads),
		"engine_aborts":          float64(engines.Aborted),
	}
}
