package trainerbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// bridge is what the sessions share.
type bridge struct {
	Config
	bodies    *bodies
	manifests *manifests
	fetch     *bus.Fetcher
	fleet     *fleet
	stats     *stats
	inspector *inspector
	hearsay   *hearsay
	clock     *clock

	// draining is closed when Run's context has ended: no further batch is
	// given out. failed is closed when fatal is set.
	draining, failed chan struct{}

	mu       sync.Mutex
	fatal    error            // what ends the run
	sessions map[int]*session // by rank
}

// Run serves trainers until ctx ends; then every waiting trainer is told "drained"
// and has DrainTimeout to report its last checkpoint and close. It returns nil
// after that, a [*BodyError] or an error of the layout when a batch cannot be built,
// or the bus's error.
func Run(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	b := newBridge(cfg)
	listeners, err := b.listen()
	if err != nil {
		return err
	}
	// The parts outlive ctx: a draining trainer still commits.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	parts, work := errgroup.WithContext(work)
	b.startParts(work, parts)
	for _, l := range listeners {
		parts.Go(func() error { return b.serve(work, l) })
	}
	parts.Go(func() error {
		if err := b.untilDrained(ctx, work, listeners); err != nil {
			return err // which ends the others, and comes before theirs
		}
		stop()
		return nil
	})
	err = parts.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func newBridge(cfg Config) *bridge {
	b := &bridge{Config: cfg, bodies: newBodies(cfg.CacheBytes), stats: &stats{spans: newBridgeSpans(cfg.Instance)}, fleet: newFleet(cfg.Conn, cfg.Run),
		draining: make(chan struct{}), failed: make(chan struct{}), sessions: map[int]*session{}}
	b.manifests = newManifests(cfg.Conn, cfg.Run, b.bodies)
	b.hearsay = newHearsay(cfg.Conn, cfg.Run, cfg.Log)
	b.clock = &clock{}
	b.fetch = bus.NewFetcher(cfg.Conn, cfg.Run.StreamName(subjects.Rollouts), bus.FetchConfig{})
	b.inspector = &inspector{conn: cfg.Conn, run: cfg.Run, leased: cfg.Leased, vocab: cfg.Vocab, bodies: b.bodies, stats: b.stats,
		fetch: bus.NewFetcher(cfg.Conn, cfg.Run.StreamName(subjects.Rollouts), bus.FetchConfig{}),
		fits:  func(s []subjects.SegmentView) error { return cfg.Layout.Fits(s, cfg.MaxSegments) },
		log:   cfg.Log, onEvent: cfg.OnEvent, moved: make(chan struct{}, 1)}
	return b
}

func (b *bridge) startParts(ctx context.Context, parts *errgroup.Group) {
	parts.Go(func() error { return b.manifests.follow(ctx) })
	parts.Go(func() error { return b.fleet.follow(ctx) })
	parts.Go(func() error { return b.hearsay.follow(ctx) })
	parts.Go(func() error { return b.gauge(ctx) })
	parts.Go(func() error { return b.reportSpans(ctx) })
	parts.Go(func() error { return b.clock.keep(ctx, b.Conn) })
	if b.Inspect || b.Retention.Keep != "" {
		j := b.newJanitor()
		parts.Go(func() error { return j.follow(ctx) })
		parts.Go(func() error { return j.tidy(ctx) })
	}
	if b.Inspect {
		parts.Go(func() error { return b.inspector.inspect(ctx) })
	}
}

func (b *bridge) listen() ([]net.Listener, error) {
	var listeners []net.Listener
	var addresses []string
	for _, address := range b.Listen {
		l, err := feed.Listen(address)
		if err != nil {
			for _, other := range listeners {
				_ = other.Close()
			}
			return nil, err
		}
		listeners = append(listeners, l)
		addresses = append(addresses, l.Addr().Network()+":"+l.Addr().String())
	}
	b.Log.Info().Strs("addresses", addresses).Msg("bridge serves trainers")
	if b.OnListen != nil {
		b.OnListen(addresses)
	}
	return listeners, nil
}

// untilDrained waits for ctx, an error of the run or one of the parts, then for
// the sessions to end.
func (b *bridge) untilDrained(ctx, work context.Context, listeners []net.Listener) error {
	select {
	case <-ctx.Done():
	case <-b.failed:
	case <-work.Done():
	}
	close(b.draining)
	for _, l := range listeners {
		_ = l.Close()
	}
	timeout, cancel := context.WithTimeout(work, b.DrainTimeout)
	defer cancel()
	for _, s := range b.active() {
		select {
		case <-s.done:
		case <-timeout.Done():
			b.Log.Warn().Int("rank", s.part.Rank).Dur("after", b.DrainTimeout).Msg("trainer did not close, disconnecting")
			return b.failure()
		}
	}
	return b.failure()
}

func (b *bridge) active() (all []*session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		all = append(all, s)
	}
	return all
}

// fail ends the run with an error that no retry helps; the first one counts.
func (b *bridge) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fatal == nil {
		b.fatal = err
		close(b.failed)
	}
}

func (b *bridge) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fatal
}

// maxConnections bounds the trainers, and the strangers that have not said
// HELLO yet, of one listener.
const maxConnections = 256

// serve accepts trainers until the listener closes.
func (b *bridge) serve(ctx context.Context, l net.Listener) error {
	open := sync.WaitGroup{}
	defer open.Wait()
	places := make(chan struct{}, maxConnections)
	for {
		places <- struct{}{}
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil: // out of descriptors, most likely
			b.Log.Warn().Err(err).Msg("accept trainer")
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return nil
			}
			<-places
			continue
		}
		open.Go(func() {
			defer func() { <-places }()
			b.handle(ctx, conn)
		})
	}
}

// defaultTakeover is how long a second trainer waits for the first of its rank to be
// found dead: longer than a silent peer survives its keep-alives.
const defaultTakeover = 20 * time.Second

// claim makes s the session of its rank, once the one before it has ended.
func (b *bridge) claim(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, b.takeover)
	defer cancel()
	for {
		b.mu.Lock()
		before := b.sessions[s.part.Rank]
		if before == nil {
			b.sessions[s.part.Rank] = s
			b.mu.Unlock()
			return nil
		}
		b.mu.Unlock()
		select {
		case <-before.done:
		case <-b.draining:
			return errors.New("bridge is shutting down")
		case <-ctx.Done():
			return fmt.Errorf("rank %d is served to another trainer, which is alive: stop it first", s.part.Rank)
		}
	}
}

func (b *bridge) leave(s *session) {
	b.mu.Lock()
	if b.sessions[s.part.Rank] == s {
		delete(b.sessions, s.part.Rank)
	}
	b.mu.Unlock()
	close(s.done)
}
