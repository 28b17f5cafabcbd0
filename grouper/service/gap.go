package service

import (
	"context"

	"github.com/headrace/headrace/internal/bus"
)

// gap tells messages that are missing before seq from those that were purged on
// record, which nobody needs.
func (s *session) gap(ctx context.Context, seq, missing uint64) {
	if below, err := bus.Purged(ctx, s.cfg.Conn, s.cfg.Run); err == nil && seq <= below {
		s.cfg.Log.Debug().Uint64("seq", seq).Uint64("purged", missing).Msg("read on behind a purge")
		return
	}
	s.report.missing += missing
	s.cfg.Log.Warn().Uint64("seq", seq).Uint64("missing", missing).
		Msg("gap in the rollouts: the server lost messages, or somebody purged them by hand; `headrace audit` says more")
}
