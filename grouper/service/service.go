package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
)

// errResync ends a session that is to be followed by another: the core may
// differ from the log.
var errResync = errors.New("out of step with the ledger")

// pauses between sessions.
const (
	defaultStandby = time.Second
	maxStandby     = 5 // times the standby
	retryPause     = time.Second
)

// service is what outlives a session.
type service struct {
	cfg     Config
	sources []source
	supply  grouper.Supply
	standby time.Duration // next pause after a lost write
	dog     *dog
	work    *work
}

// Run groups until the run ends, ctx ends (nil: nothing is lost, the log has it
// all) or something cannot be healed. The error is nil for a run that did what it
// was for, and an [*Ended] for one that ended otherwise.
func Run(ctx context.Context, cfg Config) error {
	if err := cmp.Or(cfg.Grouper.Validate(), cfg.Watchdog.Validate()); err != nil {
		return fmt.Errorf("grouper: %w", err)
	}
	if cfg.Standby == 0 {
		cfg.Standby = defaultStandby
	}
	if err := Fits(cfg.Grouper, cfg.Conn.MaxPayload()); err != nil {
		return fmt.Errorf("grouper: %w", err)
	}
	s := &service{cfg: cfg, standby: cfg.Standby, work: newWork(cfg.Writer)}
	var err error
	if s.sources, err = cfg.sources(); err != nil {
		return err
	}
	s.supply = cfg.supply(s.sources)
	s.dog = newDog(&s.cfg)
	return s.watched(ctx, s.sessions)
}

// sessions has one after the other until the run ends.
func (s *service) sessions(ctx context.Context) error {
	for {
		err := s.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			return s.over(ctx)
		}
		s.dog.trouble(time.Now(), err)
		pause, again := s.pause(err)
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// pause says whether an error is healed by another session, and when to start it.
func (s *service) pause(err error) (time.Duration, bool) {
	switch {
	case errors.Is(err, errResync):
		s.cfg.Log.Debug().Msg("another grouper wrote; reading the log again")
		return 0, true
	case errors.Is(err, bus.ErrConflict):
		pause := s.standby/2 + rand.N(s.standby)
		s.standby = min(2*s.standby, maxStandby*s.cfg.Standby)
		s.cfg.Log.Info().Dur("standby", pause).Msg("another grouper writes the ledger; standing by")
		return pause, true
	case errors.Is(err, bus.ErrStreamFull), errors.Is(err, bus.ErrTimeout), errors.Is(err, bus.ErrBusy), errors.Is(err, bus.ErrDiskFull):
		s.cfg.Log.Warn().Err(err).Msg("grouping pauses")
		return retryPause, true
	}
	return 0, false
}
