// Package sidecar is the role `engine`: it stands beside one inference engine,
// brings every new version of the weights into it and says in the run's
// registry what the engine serves.
//
// The one idea: the engine is told what to serve and then asked what it serves;
// only the answer is believed and announced. So an engine that restarts empty,
// joins late or fails to load is treated like one that has fallen behind: the
// newest version is loaded into it, older ones are skipped.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/producers/sglang"
	"github.com/headrace/headrace/subjects"
)

// Config configures [Run].
type Config struct {
	// Run whose weights the engine serves. Required.
	Run subjects.Run
	// Engine is its name in the registry. Required.
	Engine string
	// URL is where producers and this sidecar reach it. Required.
	URL string
	// Pause says what becomes of requests in flight. Default retract.
	Pause sglang.PauseMode
	// Poll is how often the engine is asked what it serves, which is how a
	// restart is noticed. Default 1 second.
	Poll time.Duration
	// LoadTimeout bounds one call that loads weights. Default 10 minutes.
	LoadTimeout time.Duration
	// Observe is how often the engine is asked how it is doing. Default 1 second.
	Observe time.Duration
	Log     zerolog.Logger
}

const (
	defaultPoll        = time.Second
	defaultObserve     = time.Second
	defaultLoadTimeout = 10 * time.Minute
	callTimeout        = 10 * time.Second // of the small calls
	drainTimeout       = time.Minute      // of a pause, which may wait for a pass of the model
	leaveTimeout       = 5 * time.Second
	firstRetry         = time.Second // after a load that failed, then twice as long, ...
	mostRetry          = 30 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Pause == "" {
		c.Pause = sglang.PauseRetract
	}
	if c.Poll <= 0 {
		c.Poll = defaultPoll
	}
	if c.Observe <= 0 {
		c.Observe = defaultObserve
	}
	if c.LoadTimeout <= 0 {
		c.LoadTimeout = defaultLoadTimeout
	}
	return c
}

func (c Config) validate() error {
	if err := c.Run.Validate(); err != nil {
		return err
	}
	if !subjects.ValidToken(c.Engine) {
		return fmt.Errorf("engine name %q: want 1 to 64 of letters, digits, - and _", c.Engine)
	}
	switch c.Pause {
	case sglang.PauseRetract, sglang.PauseInPlace, sglang.PauseAbort:
		return nil
	}
	return fmt.Errorf("pause mode %q: allowed are retract, in_place, abort", c.Pause)
}

// sidecar is one engine's while it runs; one goroutine owns it, but for what
// the observer sees.
type sidecar struct {
	cfg    Config
	conn   *bus.Conn
	client *sglang.Client
	news   chan *subjects.VersionEvent // holds the newest only
	sight  *sight

	target  *subjects.VersionEvent // what the engine is to serve
	acked   *subjects.VersionEvent // the last one that it was found to serve
	serves  sglang.ModelInfo       // what it said last
	proven  sglang.ModelInfo       // what it said when it last served a version of this run
	up      bool                   // it answered last time
	asked   bool                   // at least once
	failed  *subjects.VersionEvent // the one that did not load
	retryAt time.Time
	retry   time.Duration
	posted  subjects.EngineRecord
	post    time.Time // of the record
}

// Run serves the engine until ctx ends, then takes it off the registry and
// returns nil. Nothing that the engine does ends it: an engine that is down is
// waited for.
func Run(ctx context.Context, conn *bus.Conn, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	if _, err := bus.LookupRun(ctx, conn, cfg.Run); err != nil {
		return fmt.Errorf("join run %s: %w", cfg.Run, err)
	}
	client, err := sglang.New(sglang.Options{URL: cfg.URL, Name: cfg.Engine, MaxConns: 8})
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is lost with a client
	s := &sidecar{cfg: cfg, conn: conn, client: client, news: make(chan *subjects.VersionEvent, 1)}
	s.sight = newSight(cfg.Engine)
	s.serves.Version, s.proven.Version = subjects.NoVersion, neverProven
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return s.follow(ctx) })
	parts.Go(func() error { return s.keep(ctx) })
	o := &observer{cfg: cfg, conn: conn, client: client, sight: s.sight}
	parts.Go(func() error { return o.ask(ctx) })
	parts.Go(func() error { return o.gauge(ctx) })
	parts.Go(func() error { return o.report(ctx) })
	err = parts.Wait()
	s.leave()
	return err
}

// neverProven equals no version that an engine may say it serves.
const neverProven = subjects.NoVersion - 1

// follow hears of versions. A late engine begins with the latest.
func (s *sidecar) follow(ctx context.Context) error {
	stream, subject := s.cfg.Run.StreamName(subjects.Weights), s.cfg.Run.WeightsSubject(subjects.EventVersion)
	err := bus.FollowLatest(ctx, s.conn, stream, subject, func(m *bus.Msg) error {
		event := &subjects.VersionEvent{}
		if err := subjects.DecodeMessage(m.Data, event); err != nil {
			s.cfg.Log.Error().Err(err).Uint64("sequence", m.Seq).Msg("event is not readable")
			return nil
		}
		select {
		case <-s.news: // superseded before it was looked at
		default:
		}
		s.news <- event
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("follow weights: %w", err)
}

// keep makes the engine serve the newest version and the registry say so.
func (s *sidecar) keep(ctx context.Context) error {
	ticker := time.NewTicker(s.cfg.Poll)
	defer ticker.Stop()
	for {
		s.look(ctx)
		if s.due() {
			s.bring(ctx, s.target)
		}
		s.announce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case event := <-s.news:
			s.target = event
		case <-ticker.C:
		}
	}
}

// look asks the engine what it serves.
func (s *sidecar) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := s.client.Info(ctx)
	if err != nil && !s.asked {
		s.cfg.Log.Info().AnErr("reason", err).Str("engine", s.cfg.Engine).Str("url", s.cfg.URL).Msg("waiting for the engine")
	}
	s.asked = true
	if up := err == nil; up != s.up {
		s.up = up
		s.cfg.Log.Info().AnErr("reason", err).Str("engine", s.cfg.Engine).Bool("up", up).Msg("engine came or went")
		s.retryAt, s.retry = time.Time{}, 0 // a new process may load what the old one could not
		if up {
			_ = s.client.Continue(ctx) // a sidecar that was killed may have left it paused
		}
	}
	s.serves = info
	s.sight.found(s.up, info.Version)
}

// due reports whether there is something to load or to acknowledge.
func (s *sidecar) due() bool {
	if !s.up || s.target == nil {
		return false
	}
	if s.failed == s.target && time.Now().Before(s.retryAt) {
		return false
	}
	return s.acked != s.target || !s.has(s.target)
}

// has reports whether the engine is known to serve the event's weights. Where
// the engine does not tell a checksum, only what this sidecar has loaded under
// the same incarnation of the trainer is known.
func (s *sidecar) has(e *subjects.VersionEvent) bool {
	if serves(s.serves, e) != nil {
		return false
	}
	if s.serves.SHA256 != "" && weightsFile(e) != nil {
		return true
	}
	return s.serves == s.proven && s.acked != nil && s.acked.Version == e.Version && s.acked.Incarnation == e.Incarnation
}

var errOtherVersion = errors.New("the engine serves another version")

// serves compares what an engine says with an event: the version and, where
// the engine tells it, the checksum of the weights.
func serves(info sglang.ModelInfo, e *subjects.VersionEvent) error {
	if info.Version != e.Version {
		return fmt.Errorf("%w: %d, not %d", errOtherVersion, info.Version, e.Version)
	}
	if f := weightsFile(e); f != nil && info.SHA256 != "" && info.SHA256 != f.SHA256 {
		return fmt.Errorf("the engine's weights have sha256 %.12s, version %d has %.12s", info.SHA256, e.Version, f.SHA256)
	}
	return nil
}

// weightsFile is the one file that an engine's checksum is of; nil when the
// weights are in several.
func weightsFile(e *subjects.VersionEvent) *subjects.File {
	var found *subjects.File
	for i := range e.Files {
		if f := &e.Files[i]; f.Name == "model.safetensors" || len(e.Files) == 1 {
			found = f
		}
	}
	return found
}
