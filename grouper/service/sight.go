package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/watchdog"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

const (
	mostSeen   = 4096             // producers or bridges remembered
	mostHeld   = 64               // leases of each
	forgetIdle = 10 * time.Minute // since they were last heard of, if there are so many
)

// sight is what the watchdog sees: the session and the listeners write it, the
// loop takes pictures.
type sight struct {
	mu        sync.Mutex
	pic       watchdog.Picture
	mark      mark
	producers map[string]watchdog.Producer
	bridges   map[string]watchdog.Bridge
	closed    []closed // since the last batch, oldest first
}

// mark is all that a run that moves changes.
type mark struct {
	held, flying             int
	head, weights, inspected uint64
	says                     string
}

type closed struct {
	group   subjects.GroupID
	outcome subjects.Outcome
}

func (s *sight) start(now time.Time) {
	s.pic = watchdog.Picture{Moved: now, Progressed: now}
	s.producers, s.bridges = map[string]watchdog.Producer{}, map[string]watchdog.Bridge{}
}

// picture is what there is to see now.
func (d *dog) picture(now time.Time) watchdog.Picture {
	connected := d.cfg.Conn.NC().IsConnected()
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pic
	p.Now = now
	for _, x := range d.producers {
		p.Producers = append(p.Producers, x)
	}
	for _, x := range d.bridges {
		p.Bridges = append(p.Bridges, x)
	}
	for _, c := range d.closed {
		p.Closed = append(p.Closed, c.outcome)
	}
	if !connected {
		d.troubled(now, watchdog.Cause{Stage: subjects.StageBus, Code: subjects.BusUnreachable, Text: "no server answers: the connection to the bus is lost"})
		p.Trouble, p.TroubleAt = d.pic.Trouble, d.pic.TroubleAt
	} else if d.pic.Trouble.Code == subjects.BusUnreachable {
		d.pic.Trouble, p.Trouble = watchdog.Cause{}, watchdog.Cause{}
	}
	return p
}

func (s *sight) idle(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.pic.Moved)
}

func (s *sight) sawEnd() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pic.View.Next.Wait == grouper.WaitNothing
}

func (s *sight) setUsage(bytes, limit int64, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pic.RolloutBytes, s.pic.RolloutLimit, s.pic.Last = bytes, limit, last
}

// busy notes that the grouper reads the log, which is movement.
func (s *sight) busy(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pic.Moved, s.pic.Progressed = now, now
}

// see notes how a session stands.
func (s *sight) see(now time.Time, v grouper.View, head, weights, inspected uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.mark
	m.held, m.flying, m.head, m.weights = v.Held, v.InFlight, head, weights
	if v.Next.Wait == grouper.WaitInspection {
		m.inspected = inspected
	}
	s.move(now, m)
	if v.NextStep != s.pic.View.NextStep || v.Committed != s.pic.View.Committed {
		s.pic.Progressed = now
	}
	s.pic.View, s.pic.Inspected = v, inspected
	if c := s.pic.Trouble.Code; c != "" && c != subjects.BusUnreachable {
		s.pic.Trouble = watchdog.Cause{} // a session lives
	}
}

func (s *sight) move(now time.Time, m mark) {
	if m != s.mark {
		s.mark, s.pic.Moved = m, now
	}
}

// wrote notes an entry of the ledger: what closed since the last batch, and how.
func (s *sight) wrote(now time.Time, e *subjects.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range e.Verdicts {
		s.closes(closed{e.Verdicts[i].Group, e.Verdicts[i].Outcome})
	}
	if len(e.Batches)+len(e.Evals) > 0 {
		s.pic.Progressed = now
	}
	if len(e.Batches) > 0 {
		s.closed = s.closed[:0]
	}
}

func (s *sight) closes(c closed) {
	if i := slices.IndexFunc(s.closed, func(x closed) bool { return x.group == c.group }); i >= 0 {
		s.closed[i] = c // a verdict revised
		return
	}
	if s.closed = append(s.closed, c); len(s.closed) > watchdog.Recent {
		s.closed = slices.Delete(s.closed, 0, len(s.closed)-watchdog.Recent)
	}
}

// inspector notes a word of the inspector.
func (s *sight) inspector(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pic.HintAt = now
}

// trouble notes why a session ended, if that keeps the grouper from writing.
func (s *sight) trouble(now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, bus.ErrDiskFull), errors.Is(err, bus.ErrStreamFull):
		s.troubled(now, watchdog.Cause{Stage: subjects.StageBus, Code: subjects.DiskFull, Text: "grouper cannot write: " + err.Error()})
	case errors.Is(err, bus.ErrTimeout), errors.Is(err, bus.ErrBusy):
		s.troubled(now, watchdog.Cause{Stage: subjects.StageBus, Code: subjects.BusUnreachable, Text: "grouper cannot write: " + err.Error()})
	}
}

func (s *sight) troubled(now time.Time, c watchdog.Cause) {
	if s.pic.Trouble.Code != c.Code {
		s.pic.TroubleAt = now
	}
	s.pic.Trouble = c
}

// listen hears producers and bridges until ctx ends.
func (d *dog) listen(ctx context.Context) {
	in := make(chan *nats.Msg, 8192)
	for _, role := range []string{"produce", "bridge"} {
		sub, err := d.cfg.Conn.NC().ChanSubscribe(d.cfg.Run.TelemetrySubject(role, "*"), in)
		if err != nil {
			d.cfg.Log.Debug().Err(err).Msg("listen to the fleet")
			continue
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-in:
			var g subjects.Gauges
			if subjects.DecodeMessage(m.Data, &g) != nil {
				continue
			}
			path := strings.Split(m.Subject, ".") // whose it is says the subject, which the server guards
			g.Role, g.Instance = path[len(path)-2], path[len(path)-1]
			g.Leases = g.Leases[:min(len(g.Leases), mostHeld)]
			d.report(time.Now(), &g)
		}
	}
}

// report notes what a role says of itself.
func (s *sight) report(now time.Time, g *subjects.Gauges) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch g.Role {
	case "produce":
		x := s.producers[g.Instance]
		x.Name, x.Heard, x.Held = g.Instance, now, int(g.Values["leases_held"])
		x.Blocked, x.EnginesLive = g.Values["publisher_blocked"] > 0, -1
		if n, ok := g.Values["engines_live"]; ok {
			x.EnginesLive = int(n)
		}
		if len(g.Leases) > 0 || x.Held == 0 {
			x.Leases, x.LeasesAt = g.Leases, now
		}
		s.producers[g.Instance] = x
		forget(s.producers, now, func(x watchdog.Producer) time.Time { return x.Heard })
	case "bridge":
		s.bridges[g.Instance] = watchdog.Bridge{Name: g.Instance, Heard: now, Trainers: int(g.Values["trainers"]), Ready: int(g.Values["batches_ready"]),
			Delivered: subjects.Step(g.Values["delivered_step"]), Committed: subjects.Step(g.Values["committed_step"]), Says: g.Text}
		forget(s.bridges, now, func(x watchdog.Bridge) time.Time { return x.Heard })
		m := s.mark
		m.says = g.Text // a warm start moves nothing else
		s.move(now, m)
	}
}

// forget bounds what strangers can make the grouper remember.
func forget[T any](m map[string]T, now time.Time, heard func(T) time.Time) {
	if len(m) <= mostSeen {
		return
	}
	for k, v := range m {
		if now.Sub(heard(v)) > forgetIdle || len(m) > 2*mostSeen {
			delete(m, k)
		}
	}
}

// followEngines keeps the registry of engines in sight until ctx ends.
func (d *dog) followEngines(ctx context.Context) {
	for ctx.Err() == nil {
		err := bus.WatchEngines(ctx, d.cfg.Conn, d.cfg.Run, func(engines []subjects.EngineRecord) error {
			d.engines(slices.Clone(engines), true)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		d.cfg.Log.Debug().Err(err).Msg("the engines are not watched")
		d.engines(nil, false)
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

func (s *sight) engines(list []subjects.EngineRecord, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pic.Engines, s.pic.EnginesKnown = list, known
}
