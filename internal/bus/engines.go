package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/subjects"
)

func byEngine(a, b subjects.EngineRecord) int { return cmp.Compare(a.Engine, b.Engine) }

// PutEngine registers or refreshes an engine.
func PutEngine(ctx context.Context, c *Conn, run subjects.Run, e *subjects.EngineRecord) error {
	return putJSON(ctx, c, run.EnginesBucket(), e.Engine, e)
}

// RemoveEngine takes an engine off the registry. A missing one is no error.
func RemoveEngine(ctx context.Context, c *Conn, run subjects.Run, engine string) error {
	return removeKey(ctx, c, run.EnginesBucket(), engine)
}

// Engines lists the live engines, by id.
func Engines(ctx context.Context, c *Conn, run subjects.Run) ([]subjects.EngineRecord, error) {
	return list(ctx, c, run.EnginesBucket(), byEngine)
}

// WatchEngines calls fn with the live engines, by id: at once and after every
// change, entries that expire included (a refresh that changes nothing but its
// time is none). It returns fn's error, or when ctx ends. The server does not
// tell when an entry expires: an engine is gone EngineTTL after its last refresh was seen.
func WatchEngines(ctx context.Context, c *Conn, run subjects.Run, fn func([]subjects.EngineRecord) error) error {
	now, err := Engines(ctx, c, run)
	if err != nil {
		return err
	}
	w := registry{live: map[string]engineSeen{}, fn: fn}
	for _, e := range now {
		w.live[e.Engine] = engineSeen{e, time.Now()}
	}
	if err := w.report(true); err != nil {
		return err
	}
	updates := make(chan *Msg)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		bucket := run.EnginesBucket()
		return FollowLatest(ctx, c, subjects.BucketStream(bucket), subjects.BucketSubject(bucket, ">"), func(m *Msg) error {
			select {
			case updates <- m:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	g.Go(func() error { return w.run(ctx, updates) })
	return g.Wait()
}

type engineSeen struct {
	subjects.EngineRecord
	at time.Time // on this process's clock
}

// registry is the picture a watcher has.
type registry struct {
	live map[string]engineSeen
	last []subjects.EngineRecord
	fn   func([]subjects.EngineRecord) error
}

func (w *registry) run(ctx context.Context, updates <-chan *Msg) error {
	tick := time.NewTicker(EngineTTL / 10)
	defer tick.Stop()
	for {
		select {
		case m := <-updates:
			w.update(m)
		case now := <-tick.C:
			maps.DeleteFunc(w.live, func(_ string, e engineSeen) bool { return now.Sub(e.at) >= EngineTTL })
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := w.report(false); err != nil {
			return err
		}
	}
}

func (w *registry) update(m *Msg) {
	key := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	var e subjects.EngineRecord
	if m.Header.Get("KV-Operation") != "" || json.Unmarshal(m.Data, &e) != nil {
		delete(w.live, key)
		return
	}
	w.live[key] = engineSeen{e, time.Now()}
}

// report calls fn when something other than a refresh's time changed.
func (w *registry) report(always bool) error {
	now := make([]subjects.EngineRecord, 0, len(w.live))
	for _, e := range w.live {
		now = append(now, e.EngineRecord)
	}
	slices.SortFunc(now, byEngine)
	same := slices.EqualFunc(now, w.last, func(a, b subjects.EngineRecord) bool {
		a.At, b.At = 0, 0
		return a == b
	})
	if same && !always {
		return nil
	}
	w.last = slices.Clone(now)
	return w.fn(now)
}
