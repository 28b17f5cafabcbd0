package trainerbridge

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// fleet knows which engines there are and which version each serves.
type fleet struct {
	conn *bus.Conn
	run  subjects.Run

	mu      sync.Mutex
	engines []string // registered, by id
	acks    map[string]ack
	changed chan struct{} // closed when any of this changes
}

// ack is the newest version that an engine said it serves.
type ack struct {
	incarnation int
	version     subjects.PolicyVersion
}

func newFleet(conn *bus.Conn, run subjects.Run) *fleet {
	return &fleet{conn: conn, run: run, acks: map[string]ack{}, changed: make(chan struct{})}
}

// follow keeps it current until ctx ends.
func (f *fleet) follow(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := bus.WatchEngines(ctx, f.conn, f.run, func(engines []subjects.EngineRecord) error {
			f.register(engines)
			return nil
		})
		return wrap("watch engines", err)
	})
	g.Go(func() error {
		err := bus.Follow(ctx, f.conn, f.run.StreamName(subjects.Weights), f.run.AckSubject("*"), 1, func(m *bus.Msg) error {
			var e subjects.AckEvent
			if err := subjects.DecodeMessage(m.Data, &e); err != nil {
				return nil // an engine's mistake is that engine's: it counts as missing
			}
			f.hear(&e)
			return nil
		})
		return wrap("follow engines' acks", err)
	})
	return g.Wait()
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (f *fleet) register(engines []subjects.EngineRecord) {
	f.update(func() {
		f.engines = f.engines[:0]
		for i := range engines {
			f.engines = append(f.engines, engines[i].Engine)
		}
		slices.Sort(f.engines)
	})
}

func (f *fleet) hear(e *subjects.AckEvent) {
	if e.Error == "" {
		f.update(func() { f.acks[e.Engine] = ack{e.Incarnation, e.Version} })
	}
}

func (f *fleet) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// served lists which registered engines serve a version of the incarnation, or
// a later one, and which do not.
func (f *fleet) served(v subjects.PolicyVersion, incarnation int) (acked, missing []string, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.engines {
		if a := f.acks[e]; a.incarnation >= incarnation && a.version >= v {
			acked = append(acked, e)
		} else {
			missing = append(missing, e)
		}
	}
	return acked, missing, f.changed
}

// wait answers WAIT_WEIGHTS; the end of ctx counts as its time limit.
func (f *fleet) wait(ctx context.Context, m *feed.WaitWeights, incarnation int) (feed.OK, error) {
	if !slices.Contains([]feed.Need{feed.NeedNone, feed.NeedQuorum, feed.NeedAll}, m.Need) {
		return feed.OK{}, refuse("wait for weights: need %q is none of none, quorum, all", m.Need)
	}
	limit := min(max(m.TimeoutS, 0), time.Hour.Seconds())
	timeout, cancel := context.WithTimeout(ctx, time.Duration(limit*float64(time.Second)))
	defer cancel()
	for {
		acked, missing, changed := f.served(m.Version, incarnation)
		ok := feed.OK{Acked: acked, Missing: missing}
		if enough(m.Need, len(acked), len(missing)) {
			return ok, nil
		}
		select {
		case <-changed:
		case <-timeout.Done():
			ok.TimedOut = true
			return ok, nil
		}
	}
}

func enough(need feed.Need, acked, missing int) bool {
	switch need {
	case feed.NeedNone:
		return true
	case feed.NeedQuorum:
		return 2*acked > acked+missing
	}
	return acked > 0 && missing == 0
}
