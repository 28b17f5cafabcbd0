package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/watchdog"
	"github.com/headrace/headrace/producers/sglang/sglangtest"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// stands asks for batches until none comes, and returns what the trainer was
// told since the last one, in order, and how its feed ended.
func (p *pipeline) stands(c *feed.Client) (codes []subjects.StallCode, end *feed.EndError) {
	p.Helper()
	c.OnNotice = func(n feed.Notice) {
		if n.Kind == "stall" {
			codes = append(codes, n.Code)
		}
	}
	for {
		b, _, err := c.Next()
		if errors.As(err, &end) {
			return codes, end
		}
		p.must(err)
		p.must(c.Release(b))
		codes = nil
	}
}

// Every producer dies in the middle of a run. The trainer is told within
// seconds, by a code that it can act on, and the run ends, since its recipe says so.
func TestComplaint_4_ATrainerWithoutProducersIsToldWithinSeconds(t *testing.T) {
	t.Parallel()
	policy := tasks(50)
	policy.ZeroVariance = grouper.PolicyKeep
	p := live(t, policy)
	p.cfg.Watchdog = watchdog.Config{After: time.Second, EndAfter: 4 * time.Second}
	stop := p.frozenlake(8, func(sglangtest.Request) string { return "4" })
	c := p.whole()
	p.train(c)
	stop()
	begun := time.Now()
	codes, end := p.stands(c)
	if took := time.Since(begun); took > 20*time.Second || end.Reason != subjects.EndNoProducers {
		t.Errorf("ended with %q after %s", end.Reason, took)
	}
	if !slices.Contains(codes, subjects.NoProducers) {
		t.Errorf("told %v, want no_producers", codes)
	}
}

// No staleness is allowed, and what comes was sampled by weights of before:
// everything is dropped, for ever, unless somebody says so.
func TestComplaint_7_ALivelockOfStaleGroupsHasAName(t *testing.T) {
	t.Parallel()
	policy := external()
	policy.MaxStaleness = new(0)
	p := live(t, policy)
	p.cfg.Watchdog = watchdog.Config{After: time.Second, EndAfter: 3 * time.Second}
	pub, n := p.publisher("p1"), 0
	old := func(groups int) {
		for range groups {
			for slot := range 4 {
				tr := rollout(subjects.GroupID(fmt.Sprint("g", n)), slot)
				tr.Segments[0].Versions[0].Version = 0
				_, err := pub.Publish(t.Context(), tr)
				p.must(err)
			}
			n++
		}
	}
	old(2)
	c := p.whole()
	p.train(c)
	defer p.start(func(ctx context.Context) error {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			old(1)
			select {
			case <-ctx.Done():
				tick.Stop()
				return nil
			case <-tick.C:
			}
		}
	})()
	codes, end := p.stands(c)
	if end.Reason != subjects.EndAllStale || !slices.Contains(codes, subjects.AllStale) {
		t.Errorf("told %v, then ended with %q", codes, end.Reason)
	}
}
