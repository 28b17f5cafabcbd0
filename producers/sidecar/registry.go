package sidecar

import (
	"context"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// announce keeps the registry's entry: at once when it changed, else every
// third of its life. An engine is ready when it answers and serves what it was
// last proven to serve. It stays so while a newer version is loaded, since calls
// are only held back meanwhile and every token carries the version that made it;
// but the entry of an engine that loads for longer than it lives expires.
func (s *sidecar) announce(ctx context.Context) {
	record := subjects.EngineRecord{V: subjects.SchemaVersion, Engine: s.cfg.Engine, URL: s.cfg.URL,
		Version: s.serves.Version, Ready: s.up && s.serves == s.proven}
	if record == s.posted && time.Since(s.post) < bus.EngineTTL/3 {
		return
	}
	putting, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stamped := record
	stamped.At = time.Now().UnixNano()
	if err := bus.PutEngine(putting, s.conn, s.cfg.Run, &stamped); err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.Warn().Err(err).Str("engine", s.cfg.Engine).Msg("engine is not registered")
		}
		return
	}
	s.posted, s.post = record, time.Now()
}

// leave takes the engine off the registry, so that producers need not wait for
// its entry to expire.
func (s *sidecar) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := bus.RemoveEngine(ctx, s.conn, s.cfg.Run, s.cfg.Engine); err != nil {
		s.cfg.Log.Debug().Err(err).Str("engine", s.cfg.Engine).Msg("entry is left to expire")
	}
}
