package grouper

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/subjects"
)

// chooser draws whole numbers in [0, n): rapid's, or a fuzzer's bytes.
type chooser func(n int) int

func (pick chooser) of(choices ...string) string { return choices[pick(len(choices))] }

// randomConfig is a small configuration that Validate accepts.
func randomConfig(pick chooser) (Config, Supply) {
	c := Config{
		GroupSize: 2 + pick(2), Oversample: pick(2), MinGroupSize: 2, GroupDeadline: time.Minute, SlotRetries: new(pick(2)),
		ZeroVariance: pick.of(PolicyKeep, PolicyDrop, PolicyRefill), Overlong: pick.of(PolicyKeep, PolicyMask, PolicyDrop),
		GroupsPerBatch: 1 + pick(3), Remainder: pick.of(PolicyKeep, PolicyDrop), MaxStaleness: new(pick(3)),
		Stale: pick.of(PolicyDrop, PolicyKeep), Order: pick.of(OrderOldest, OrderFreshest, OrderInOrder),
		MaxOpenGroups: pick(2) * 3, Steps: int64(pick(2) * 6), Inspect: new(pick(2) == 1), Source: pick.of(SourceTasks, SourceTasks, SourceExternal),
	}
	s := Supply{Train: []uint64{uint64(pick(2) * 20)}}
	if pick(3) == 0 {
		c.SlotTimeout = 20 * time.Second
	}
	if c.Source == SourceExternal {
		return c, s
	}
	if pick(2) == 0 {
		c.Evaluation = Evaluation{Every: 1 + int64(pick(3)), Tasks: 2, Greedy: new(pick(2) == 1), AtStart: new(pick(2) == 1)}
	}
	switch pick(4) {
	case 0:
		c.GroupsPerBatch, c.TokensPerBatch, c.TrajectoryTokens, c.MaxGroups = 0, 100, 20, 3
	case 1:
		c.Environments = []Environment{{Name: "lake"}, {Name: "calc", Weight: 2}}
		if c.Order != OrderInOrder {
			c.Environments[1].MinShare = 0.4
		}
		s.Train = append(s.Train, uint64(pick(2)*20))
	}
	return c, s
}

// step makes one random event.
func (w *world) step(pick chooser) {
	at, inc := w.now, w.core.trainer.incarnation
	committed := w.core.trainer.committed
	switch pick(12) {
	default:
		w.publish(w.someTrajectories(pick)...)
	case 1:
		w.now += int64(time.Duration(pick(30)) * time.Second)
	case 2, 3: // the trainer trains what there is
		if n := committed + 1; n <= w.core.lastStep {
			w.weigh(func(c *Core, seq uint64) { c.Commit(seq, at, &subjects.CommitEvent{Step: n, Incarnation: inc}) })
		}
	case 4:
		w.weigh(func(c *Core, seq uint64) {
			c.Version(seq, &subjects.VersionEvent{Version: subjects.PolicyVersion(committed), Incarnation: inc})
		})
	case 5:
		w.weigh(func(c *Core, seq uint64) {
			c.Ack(seq, &subjects.AckEvent{Version: subjects.PolicyVersion(committed), Incarnation: inc})
		})
	case 6:
		if n := subjects.Step(pick(int(committed) + 1)); pick(4) == 0 {
			w.weigh(func(c *Core, seq uint64) { c.Resumed(seq, at, &subjects.ResumedEvent{Step: n, Incarnation: inc + 1}) })
		}
	case 7: // only what is not inspected can be rejected
		if n := len(w.rollouts) - int(w.inspect); n > 0 && *w.core.cfg.Inspect {
			w.reject(subjects.Address{Seq: w.inspect + 1 + uint64(pick(n)), Index: pick(3) - 1})
		}
	case 8, 9:
		w.inspected(uint64(len(w.rollouts)))
	}
}

func (w *world) someTrajectories(pick chooser) []subjects.IndexEntry {
	var out []subjects.IndexEntry
	plays := w.core.Outstanding()
	for range 1 + pick(4) {
		e := subjects.IndexEntry{Kind: subjects.Train, Group: subjects.GroupID(fmt.Sprintf("t%d", pick(40))), Slot: subjects.Slot(pick(4)), Attempt: subjects.Attempt(pick(2))}
		if n := len(plays); n > 0 && pick(8) > 0 {
			p := plays[pick(min(n, 8))]
			e.Kind, e.Group, e.Slot, e.Attempt, e.Round = p.Kind, p.Group, p.Slot, p.Attempt, p.Round
		}
		e.Status = subjects.Status(pick.of("succeeded", "succeeded", "succeeded", "truncated", "overlong", "failed", "aborted"))
		e.Tokens = 1 + pick(20)
		e.Longest, e.Segments, e.Environment = e.Tokens, 1, "lake"
		e.Reward = float64(pick(3)) / 2
		e.MinVersion = subjects.PolicyVersion(max(0, int(w.core.trainer.committed)-pick(3)))
		e.MaxVersion = e.MinVersion
		out = append(out, e)
	}
	return out
}

// invariants hold after every decision.
func (w *world) invariants() error {
	c := w.core
	held, low := 0, c.low()
	groups := append([]*group(nil), c.kept...)
	for _, g := range c.open {
		groups = append(groups, g)
	}
	for _, g := range groups {
		held += len(g.members)
		for _, m := range g.members {
			if m.Seq < low {
				return fmt.Errorf("group %s needs sequence %d, below the watermark %d", g.id, m.Seq, low)
			}
		}
	}
	dropped := uint64(0)
	for _, n := range c.stats.Dropped {
		dropped += n
	}
	if s := c.stats; s.Produced != s.Trained+dropped+uint64(held) {
		return fmt.Errorf("produced %d; trained %d + dropped %v + held %d", s.Produced, s.Trained, s.Dropped, held)
	}
	if ahead := int64(c.lastStep - c.trainer.committed); ahead > 1+int64(*c.cfg.MaxStaleness) && c.trainer.incarnation == 0 {
		return fmt.Errorf("batch %d cut with step %d committed", c.lastStep, c.trainer.committed)
	}
	return nil
}

// play runs a random life and returns it; after is called after every event.
func play(t testing.TB, pick chooser, events int, after func(*world)) (*world, error) {
	cfg, supply := randomConfig(pick)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := newWorld(t, cfg, supply)
	w.decide()
	for range events {
		w.step(pick)
		w.decide()
		if err := w.invariants(); err != nil {
			return w, err
		}
		if after(w); pick(10) == 0 {
			if err := w.invariants(); err != nil {
				return w, err
			}
		}
	}
	if pick(2) == 0 {
		w.core.Finish(subjects.EndNoProducers, "nobody plays")
		w.decide()
		if after(w); len(w.core.open)+len(w.core.kept)+len(w.core.rounds) > 0 || w.core.Ended() == "" {
			return w, fmt.Errorf("told to end, it has %d groups open, %d kept, %d rounds; ended %q", len(w.core.open), len(w.core.kept), len(w.core.rounds), w.core.Ended())
		}
	}
	return w, w.invariants()
}

// tb lets a failing draw be shrunk.
type tb struct {
	testing.TB
	r *rapid.T
}

func (t tb) Helper()                      {}
func (t tb) Fatal(args ...any)            { t.r.Fatal(args...) }
func (t tb) Fatalf(f string, args ...any) { t.r.Fatalf(f, args...) }

func TestCore_ProducedIsTrainedPlusDroppedPlusOpenAndCrashesLeaveNoTrace(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		pick := chooser(func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "") })
		if w, err := play(tb{t, r}, pick, 60, (*world).crash); err != nil {
			r.Fatalf("%v\n%+v\n%s", err, w.cfg, w.out.String())
		}
	})
}

func TestCore_GoesOnFromAPurgedLog(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		pick := chooser(func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "") })
		if w, err := play(tb{t, r}, pick, 60, (*world).purge); err != nil {
			r.Fatalf("%v\n%+v\n%s", err, w.cfg, w.out.String())
		}
	})
}

// TestCore_NeverStandsStill plays every configuration with a producer, a
// trainer and an inspector that do what they are asked: it must end.
func TestCore_NeverStandsStill(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		pick := chooser(func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "") })
		cfg, supply := randomConfig(pick)
		if cfg.Source == SourceExternal {
			return
		}
		cfg.Steps = 6
		w := newWorld(tb{t, r}, cfg, supply)
		for n := 0; w.core.Ended() == ""; n++ {
			if n > 3000 {
				r.Fatalf("stands still, waiting for %s\n%+v\n%s", w.core.View(w.now).Waiting, cfg, w.out.String())
			}
			w.decide()
			w.now += int64(time.Second)
			if plays := w.core.Outstanding(); len(plays) > 0 {
				e := w.someTrajectories(func(n int) int { return (pick(100) + 7) % n })[0]
				p := plays[pick(min(len(plays), 4))]
				e.Kind, e.Group, e.Slot, e.Attempt, e.Round = p.Kind, p.Group, p.Slot, p.Attempt, p.Round
				e.MinVersion, e.MaxVersion = subjects.PolicyVersion(w.core.trainer.committed), subjects.PolicyVersion(w.core.trainer.committed)
				w.publish(e)
			}
			w.inspected(uint64(len(w.rollouts)))
			if n, at := w.core.trainer.committed+1, w.now; n <= w.core.lastStep {
				w.weigh(func(c *Core, seq uint64) { c.Commit(seq, at, &subjects.CommitEvent{Step: n}) })
			}
		}
	})
}

func FuzzCore(f *testing.F) {
	f.Add([]byte("the quick brown fox jumps over the lazy dog"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pick := chooser(func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b) % n
		})
		if w, err := play(t, pick, min(len(data), 200), (*world).crash); err != nil {
			t.Fatalf("%v\n%+v\n%s", err, w.cfg, w.out.String())
		}
	})
}
