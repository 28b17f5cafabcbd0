package faults

import (
	"runtime"
	"testing"

	"github.com/headrace/headrace/subjects"
	trainerbridge "github.com/headrace/headrace/trainer-bridge"
)

// What a run holds does not grow with the steps that are behind it: neither in
// the grouper, nor in the bridge, nor in a producer. The bus is a process of its
// own here, and the bridge's cache of bodies, which fills up to its bound, small.
func TestComplaint_25_ALongRunHoldsNoMoreThanAShortOne(t *testing.T) {
	const steps = 600
	p := openOn(t, startBus(t, t.TempDir(), "10m").conn, tasks(steps), 0)
	stop, _ := p.fleet("p1", played)
	defer stop()
	c := p.wholeWith(func(c *trainerbridge.Config) { c.CacheBytes = 64 << 10 })
	held := func(upTo subjects.Step) (heap uint64, goroutines int) {
		for {
			if b, _ := p.train(c); b.Step >= upTo {
				break
			}
		}
		runtime.GC()
		runtime.GC() // what finalizers held
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	early, few := held(steps / 3)
	late, many := held(steps)
	perStep := (float64(late) - float64(early)) / (steps * 2 / 3)
	t.Logf("%d KiB after %d steps, %d KiB after %d: %.0f bytes a step; %d and %d goroutines", early>>10, steps/3, late>>10, steps, perStep, few, many)
	if perStep > 512 {
		t.Errorf("%.0f bytes more for each step", perStep)
	}
	if many > few+20 {
		t.Errorf("%d goroutines, then %d", few, many)
	}
}
