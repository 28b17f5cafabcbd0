package bus_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/headrace/headrace/internal/bus"
)

func TestPublisher_IdleSendsAtOnceAndTheAddressHolds(t *testing.T) {
	c := ready(t)
	p := publisher(t, c, bus.PublisherConfig{})
	for i := range 3 {
		e := entry("t1", i)
		at, err := p.PublishEncoded(t.Context(), e, body(e.ID(), 100))
		if err != nil || at.Seq != uint64(i+1) || at.Index != 0 {
			t.Fatalf("got %+v, %v", at, err)
		}
	}
	if s := p.Stats(); s.Bundles != 3 || s.Trajectories != 3 || s.Waiting != 0 || s.PendingBytes != 0 {
		t.Errorf("stats %+v", s)
	}
	collect(t, c, func(ids []string) bool { return len(ids) == 3 })
}

func TestPublisher_UnderLoadManyTrajectoriesShareABundle(t *testing.T) {
	c := ready(t)
	p := publisher(t, c, bus.PublisherConfig{})
	publishMany(t, p, 50, 40)
	if s := p.Stats(); s.Trajectories != 2000 || s.Bundles > 1000 {
		t.Errorf("stats %+v: want fewer messages than trajectories", s)
	}
	seen := map[string]bool{}
	for _, id := range collect(t, c, func(ids []string) bool { return len(ids) == 2000 }) {
		seen[id] = true
	}
	if len(seen) != 2000 {
		t.Errorf("%d different trajectories", len(seen))
	}
}

// publishMany publishes from many goroutines, n trajectories each.
func publishMany(t testing.TB, p *bus.Publisher, goroutines, n int) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range n {
				e := entry(fmt.Sprintf("t%d", g), i)
				if _, err := p.PublishEncoded(t.Context(), e, body(e.ID(), 300)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestPublisher_WholeTrajectoriesComeBackAsTheyWere(t *testing.T) {
	c := ready(t)
	p := publisher(t, c, bus.PublisherConfig{})
	if _, err := p.Publish(t.Context(), trajectory("t9", 4, 512)); err != nil {
		t.Fatal(err)
	}
}
