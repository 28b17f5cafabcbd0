// Package service is the role `produce`: it leases tasks from a run's queue,
// plays them and publishes what came of it.
//
// The one idea: a producer owns nothing. A task is leased only while a slot is
// free, its trajectory is durable before the lease is acked, and whatever a
// producer holds when it stops or dies is leased again by another. So producers
// may join and leave a live run at any time.
package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/pool"
	"github.com/headrace/headrace/producers/sglang"
	"github.com/headrace/headrace/subjects"
)

// Config configures [Run].
type Config struct {
	// Run is the run whose tasks are played. Required.
	Run subjects.Run
	// Player says what episodes are played with. Its Producer is the name of
	// this process on the bus, unique among live ones; its Policy is replaced
	// by the pool of the run's engines.
	Player producers.Config
	// Slots is how many episodes are played at once. Default 192.
	Slots int
	// Tokenizer is the id of the vocabulary that the run was made with; a
	// player with another one is refused. Empty: not checked.
	Tokenizer string
	// Drain is how long episodes may play on after the context ended; the
	// rest is handed back at once. Default 5 seconds.
	Drain time.Duration
	// MaxLeaked bounds the calls of environments that hang past every limit;
	// beyond it Run gives up, since only a new process frees them. Default 256.
	MaxLeaked int
	// Dial makes the client of an engine. Default: SGLang's API.
	Dial func(name, url string) (pool.Engine, error)
	// Limit bounds the calls in flight at each engine.
	Limit pool.LimitConfig
	// Patience is how long a call waits for an engine when none is live.
	// Default: as the pool's.
	Patience time.Duration
	Log      zerolog.Logger
}

const (
	defaultSlots     = 192
	defaultDrain     = 5 * time.Second
	defaultMaxLeaked = 256
	failurePause     = time.Second // of a slot whose episode failed: a broken part is not hammered
	closeTimeout     = 5 * time.Second
)

// ErrLeaked says that too many calls of environments hang.
var ErrLeaked = errors.New("too many calls of environments hang")

func (c Config) withDefaults() Config {
	if c.Slots <= 0 {
		c.Slots = defaultSlots
	}
	if c.Drain <= 0 {
		c.Drain = defaultDrain
	}
	if c.MaxLeaked <= 0 {
		c.MaxLeaked = defaultMaxLeaked
	}
	if c.Dial == nil {
		vocab := 0
		if c.Player.Tokenizer != nil {
			vocab = c.Player.Tokenizer.VocabSize()
		}
		c.Dial = func(name, url string) (pool.Engine, error) {
			return sglang.New(sglang.Options{URL: url, Name: name, Vocab: vocab})
		}
	}
	return c
}

func (c Config) validate() error {
	if err := c.Run.Validate(); err != nil {
		return err
	}
	if !subjects.ValidToken(c.Player.Producer) {
		return fmt.Errorf("producer name %q: want 1 to 64 of letters, digits, - and _", c.Player.Producer)
	}
	if c.Player.Tokenizer == nil {
		return errors.New("produce: a tokenizer is required")
	}
	return nil
}

// service is one producer while it runs.
type service struct {
	cfg       Config
	conn      *bus.Conn
	pool      *pool.Pool
	player    *producers.Player
	publisher *bus.Publisher
	leases    *bus.Leases
	spans     *spans.Recorder
	names     spanNames
	acking    sync.WaitGroup
	acks      chan int32 // places of acknowledgements that are free
	held      held
	counts    counts
}

// Run produces until ctx ends, then drains: episodes have Config.Drain to
// finish, the rest goes back to the queue at once. It returns nil after a drain
// and an error when the run cannot be joined (bus.ErrNotFound,
// bus.ErrIncompatible), an engine was refused and no other is there, or the
// process is of no more use.
func Run(ctx context.Context, conn *bus.Conn, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	s := &service{cfg: cfg, conn: conn, spans: spans.New(Role, cfg.Player.Producer, 0)}
	s.acks = make(chan int32, cfg.Slots)
	for i := range int32(cfg.Slots) {
		s.acks <- i
	}
	s.names = spanNames{s.spans.Name("publish"), s.spans.Name("acknowledge"), s.spans.Name("wait for task")}
	if err := s.check(ctx); err != nil {
		return err
	}
	s.pool = pool.New(pool.Config{Dial: cfg.Dial, Limit: cfg.Limit, Patience: cfg.Patience, Log: cfg.Log})
	defer s.pool.Close() //nolint:errcheck // nothing is lost with a client
	playerConfig := cfg.Player
	playerConfig.Policy, playerConfig.Spans = s.pool, s.spans
	var err error
	if s.player, err = producers.New(playerConfig); err != nil {
		return err
	}
	return s.run(ctx)
}

// check refuses a run that this producer's trajectories would not fit.
func (s *service) check(ctx context.Context) error {
	record, err := bus.LookupRun(ctx, s.conn, s.cfg.Run)
	if err != nil {
		return fmt.Errorf("join run %s: %w", s.cfg.Run, err)
	}
	if record.Schema != subjects.SchemaVersion {
		return fmt.Errorf("join run %s: %w: its messages have schema %d, this build's %d", s.cfg.Run, bus.ErrIncompatible, record.Schema, subjects.SchemaVersion)
	}
	if want, have := s.cfg.Tokenizer, s.cfg.Player.Tokenizer.ID(); want != "" && want != have {
		return fmt.Errorf("join run %s: %w: it was made with vocabulary %s, this build makes %s", s.cfg.Run, bus.ErrIncompatible, want, have)
	}
	return nil
}

// run starts what serves the slots, then the slots, and ends them in reverse.
func (s *service) run(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	helpers, background := errgroup.WithContext(background)
	defer func() { stop(); _ = helpers.Wait() }() // after a failure; a second wait is harmless
	helpers.Go(func() error { return s.watchEngines(background) })
	s.publisher = bus.NewPublisher(s.conn, bus.PublisherConfig{Run: s.cfg.Run, Producer: s.cfg.Player.Producer, Log: s.cfg.Log})
	helpers.Go(func() error { return s.report(background) }) // that it is here, engine or not
	helpers.Go(func() error { return s.reportSpans(background) })
	if err := s.awaitEngine(ctx, background); err != nil || ctx.Err() != nil {
		return errors.Join(err, s.publisher.Close(background))
	}
	var err error
	if s.leases, err = bus.Tasks(ctx, s.conn, s.cfg.Run, s.cfg.Log); err != nil {
		return errors.Join(fmt.Errorf("lease tasks: %w", err), s.publisher.Close(background))
	}
	helpers.Go(func() error { return s.heartbeat(background) })
	s.cfg.Log.Info().Str("run", string(s.cfg.Run)).Int("slots", s.cfg.Slots).Msg("producing")
	working := errgroup.Group{}
	finished := make(chan error, 1)
	slotsCtx, endSlots := context.WithCancel(ctx)
	defer endSlots()
	working.Go(func() error { return s.play(slotsCtx) })
	go func() { finished <- working.Wait() }()
	select {
	case err = <-finished:
	case <-background.Done(): // a helper failed
		endSlots()
		err = <-finished
	}
	return errors.Join(err, s.end(stop, helpers))
}

// end closes what the slots used, then the helpers.
func (s *service) end(stop context.CancelFunc, helpers *errgroup.Group) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := errors.Join(s.leases.Close(), s.publisher.Close(ctx))
	stop()
	return errors.Join(err, helpers.Wait())
}

// watchEngines keeps the pool like the run's registry.
func (s *service) watchEngines(ctx context.Context) error {
	err := bus.WatchEngines(ctx, s.conn, s.cfg.Run, func(records []subjects.EngineRecord) error {
		s.pool.Update(records)
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("watch engines: %w", err)
}

// awaitEngine waits for the first engine that can be used.
func (s *service) awaitEngine(ctx, background context.Context) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(background, cancel)()
	s.cfg.Log.Info().Msg("waiting for an engine")
	err := s.pool.Ready(waiting)
	if ctx.Err() != nil || background.Err() != nil {
		return nil // told to stop, or the watch failed, which says why itself
	}
	return err
}
