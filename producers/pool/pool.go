// Package pool is a policy over all live engines of a run.
//
// The one idea: an episode's tokens are its whole state, so any engine can take
// any call. A session sticks to one engine for the sake of its prefix cache
// (rendezvous hashing: an engine that comes or goes moves only its own
// sessions), and when that engine dies, its sessions lose their cache and go on
// at the next.
package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/subjects"
)

// Engine is a client of one engine. Generate makes one attempt. Probe finds out
// whether the engine's answers can be trained on: ErrBadAnswer or ErrBadRequest
// mean never, other errors not yet.
type Engine interface {
	producers.Policy
	Probe(ctx context.Context) error
	Close() error
}

// Config configures a [Pool].
type Config struct {
	// Dial makes the client of an engine. Required.
	Dial func(name, url string) (Engine, error)
	// Limit bounds the calls in flight at each engine.
	Limit LimitConfig
	// Patience is how long a call waits for an engine when none is live.
	// Default 90 seconds; the call's own deadline also holds.
	Patience time.Duration
	Log      zerolog.Logger
}

const (
	defaultPatience = 90 * time.Second
	firstCooling    = 200 * time.Millisecond // an engine that failed is left alone this long, then twice as long, ...
	mostCooling     = 10 * time.Second
	abortPause      = 20 * time.Millisecond // before a call that the engine aborted is made again
	firstBackoff    = 50 * time.Millisecond // of a refused call
	mostBackoff     = 5 * time.Second
)

// Pool spreads sessions over engines. It is safe for concurrent use; Close it.
type Pool struct {
	cfg  Config
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup // probes

	mu      sync.Mutex
	members map[string]*member
	changed chan struct{} // closed and replaced at every change of members
	refused error         // why the last engine that was refused was
	stats   Stats
}

// Stats is the state of a pool. Retries, Overloads and Aborts only grow.
type Stats struct {
	Engines, Live               int // known, usable now
	InFlight, Waiting, Limit    int // calls at engines, calls that wait for a place, places
	Retries, Overloads, Aborted uint64
}

// member is one engine of the pool.
type member struct {
	name    string
	record  subjects.EngineRecord
	client  Engine
	limiter *limiter
	live    bool      // probed and announced ready
	probing bool      // a probe is on its way
	bad     bool      // refused for good, until its record's URL changes
	rests   time.Time // not used before
	cooling time.Duration
}

// New makes an empty pool.
func New(cfg Config) *Pool {
	if cfg.Patience <= 0 {
		cfg.Patience = defaultPatience
	}
	p := &Pool{cfg: cfg, members: map[string]*member{}, changed: make(chan struct{})}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Close ends probes and closes the clients. No call may be running.
func (p *Pool) Close() error {
	p.stop()
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, m := range p.members {
		errs = append(errs, m.client.Close())
	}
	return errors.Join(errs...)
}

// Stats returns the state now.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Engines = len(p.members)
	for _, m := range p.members {
		if m.live {
			s.Live++
		}
		limit, inFlight, waiting := m.limiter.now()
		s.Limit, s.InFlight, s.Waiting = s.Limit+limit, s.InFlight+inFlight, s.Waiting+waiting
	}
	return s
}

// Ready waits for the first live engine. It returns the reason when an engine
// was refused and no other is there.
func (p *Pool) Ready(ctx context.Context) error {
	for {
		p.mu.Lock()
		live, refused, changed := p.anyLive(), p.refused, p.changed
		p.mu.Unlock()
		if live || refused != nil {
			if live {
				return nil
			}
			return refused
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Pool) anyLive() bool {
	for _, m := range p.members {
		if m.live {
			return true
		}
	}
	return false
}

// Generate is [producers.Policy]: the call is made at the session's engine and,
// if that fails, made again: elsewhere when the engine is gone or answers badly,
// after a pause when it refuses work or gave the call up.
func (p *Pool) Generate(ctx context.Context, r producers.Request) (producers.Completion, error) {
	var avoid []*member
	var last error
	begun := time.Now()
	for backoff := firstBackoff; ; {
		m, err := p.pick(ctx, r.Session, avoid, last)
		if err != nil {
			return producers.Completion{}, err
		}
		c, sent, err := p.call(ctx, m, r)
		if err == nil {
			p.warm(m)
			c.Waited = sent.Sub(begun)
			return c, nil
		}
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		last = err
		var pause time.Duration
		var overloaded *producers.OverloadedError
		switch {
		case errors.As(err, &overloaded):
			pause = max(overloaded.RetryAfter, backoff)
			backoff = min(2*backoff, mostBackoff)
			p.count(func(s *Stats) { s.Overloads++ })
		case errors.Is(err, producers.ErrAborted):
			pause = abortPause
			p.count(func(s *Stats) { s.Aborted++ })
		case errors.Is(err, producers.ErrUnavailable):
			p.cool(m, err)
		case errors.Is(err, producers.ErrBadAnswer):
			avoid = append(avoid, m)
		default:
			return c, err
		}
		p.count(func(s *Stats) { s.Retries++ })
		if err := sleep(ctx, pause); err != nil {
			return c, err
		}
	}
}

func (p *Pool) count(fn func(*Stats)) {
	p.mu.Lock()
	fn(&p.stats)
	p.mu.Unlock()
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call makes one attempt, within the engine's limit, and says when it was sent.
func (p *Pool) call(ctx context.Context, m *member, r producers.Request) (c producers.Completion, sent time.Time, err error) {
	if err := m.limiter.acquire(ctx); err != nil {
		return c, sent, err
	}
	sent = time.Now()
	c, err = m.client.Generate(ctx, r)
	now := time.Now()
	m.limiter.release(outcome{latency: now.Sub(sent), queue: c.QueueTime,
		overloaded: errors.Is(err, producers.ErrOverloaded), failed: err != nil}, now)
	return c, sent, err
}

// pick is the session's engine among those that are live, rested and not to be
// avoided. It waits for one up to the pool's patience.
func (p *Pool) pick(ctx context.Context, session string, avoid []*member, last error) (*member, error) {
	var patience *time.Timer
	for {
		p.mu.Lock()
		m, wake := p.best(session, avoid)
		changed := p.changed
		p.mu.Unlock()
		if m != nil {
			return m, nil
		}
		if len(avoid) > 0 && wake == 0 {
			return nil, last // every engine there is has answered badly
		}
		if patience == nil {
			patience = time.NewTimer(p.cfg.Patience)
			defer patience.Stop()
		}
		if wake == 0 {
			wake = p.cfg.Patience
		}
		rested := time.NewTimer(wake)
		select {
		case <-changed:
		case <-rested.C:
		case <-patience.C:
			rested.Stop()
			return nil, noEngine(p.cfg.Patience, last)
		case <-ctx.Done():
			rested.Stop()
			return nil, ctx.Err()
		}
		rested.Stop()
	}
}

func noEngine(waited time.Duration, last error) error {
	if last != nil {
		return fmt.Errorf("%w for %v: %w", producers.ErrNoEngine, waited, last)
	}
	return fmt.Errorf("%w for %v", producers.ErrNoEngine, waited)
}

// best has the highest score for the session; nil and when to look again if
// all that could be used are resting.
func (p *Pool) best(session string, avoid []*member) (found *member, wake time.Duration) {
	var top uint64
	for name, m := range p.members {
		if !m.live || slices.Contains(avoid, m) {
			continue
		}
		if rest := time.Until(m.rests); rest > 0 {
			if wake == 0 || rest < wake {
				wake = rest
			}
			continue
		}
		if s := score(session, name); found == nil || s > top {
			found, top = m, s
		}
	}
	return found, wake
}

// score is the rendezvous hash of a session and an engine (FNV-1a, mixed).
func score(session, engine string) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range [2]string{session, engine} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// cool leaves an engine alone for a while, longer every time in a row.
func (p *Pool) cool(m *member, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Until(m.rests) > 0 {
		return // another call of the same moment has said so
	}
	m.cooling = min(max(2*m.cooling, firstCooling), mostCooling)
	m.rests = time.Now().Add(m.cooling)
	p.cfg.Log.Warn().Err(err).Str("engine", m.name).Dur("rests", m.cooling).Msg("engine does not answer")
}

func (p *Pool) warm(m *member) {
	p.mu.Lock()
	m.cooling = 0
	p.mu.Unlock()
}
