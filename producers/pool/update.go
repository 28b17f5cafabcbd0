package pool

import (
	"context"
	"errors"
	"time"

	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/subjects"
)

// probePause is between two probes of an engine that is not up yet.
const probePause = time.Second

// Update takes the registry's present entries: new engines are probed before
// they get calls, engines that are gone get no more.
func (p *Pool) Update(records []subjects.EngineRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	here := map[string]bool{}
	for _, r := range records {
		here[r.Engine] = true
		p.admit(r)
	}
	for name, m := range p.members {
		if !here[name] {
			p.retire(name, m)
		}
	}
	p.notify()
}

func (p *Pool) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// admit adds an engine or takes over its new record.
func (p *Pool) admit(r subjects.EngineRecord) {
	m := p.members[r.Engine]
	if m != nil && m.record.URL != r.URL {
		p.retire(r.Engine, m)
		m = nil
	}
	if m == nil {
		client, err := p.cfg.Dial(r.Engine, r.URL)
		if err != nil {
			p.cfg.Log.Error().Err(err).Str("engine", r.Engine).Msg("engine refused")
			p.refused = err
			return
		}
		m = &member{name: r.Engine, client: client, limiter: newLimiter(p.cfg.Limit)}
		p.members[r.Engine] = m
	}
	m.record = r
	if !r.Ready {
		m.live = false
		return
	}
	if !m.live && !m.probing && !m.bad {
		m.probing = true
		p.work.Go(func() { p.probe(m) })
	}
}

// retire drops an engine; its calls end by themselves and its client is closed
// after them.
func (p *Pool) retire(name string, m *member) {
	delete(p.members, name)
	m.live = false
	p.cfg.Log.Info().Str("engine", name).Msg("engine left")
	p.work.Go(func() { _ = m.client.Close() })
}

// probe makes an engine live once its answers are good, or refuses it.
func (p *Pool) probe(m *member) {
	err := p.probed(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	m.probing = false
	if p.members[m.name] != m || p.ctx.Err() != nil {
		return
	}
	log := p.cfg.Log.With().Str("engine", m.name).Str("url", m.record.URL).Logger()
	switch {
	case err == nil:
		m.live = m.record.Ready
		log.Info().Int64("version", int64(m.record.Version)).Msg("engine joined")
	case refusal(err):
		m.bad = true
		p.refused = err
		log.Error().Err(err).Msg("engine refused")
	default: // its record said that it is not ready any more
	}
	p.notify()
}

func refusal(err error) bool {
	return errors.Is(err, producers.ErrBadAnswer) || errors.Is(err, producers.ErrBadRequest)
}

// probed probes until there is an answer or the engine is not ready any more.
func (p *Pool) probed(m *member) error {
	for {
		err := m.client.Probe(p.ctx)
		if err == nil || refusal(err) || p.ctx.Err() != nil {
			return err
		}
		p.cfg.Log.Debug().Err(err).Str("engine", m.name).Msg("engine is not up yet")
		if sleep(p.ctx, probePause) != nil || !p.wanted(m) {
			return context.Canceled
		}
	}
}

func (p *Pool) wanted(m *member) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.members[m.name] == m && m.record.Ready
}
