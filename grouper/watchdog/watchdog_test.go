package watchdog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/subjects"
)

var start = time.Unix(1_800_000_000, 0)

// at is a time, seconds after the start.
func at(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

// slots is a picture at second 95 of a run that waits for group t41, in which
// nothing moved since second 0; change makes it a case.
func slots(change func(*Picture)) *Picture {
	p := &Picture{Now: at(95), Moved: at(0), Progressed: at(0), EnginesKnown: true,
		View:      grouper.View{NextStep: 13, Next: grouper.Outlook{Wait: grouper.WaitSlots, Group: "t41", Missing: 3}},
		Producers: []Producer{{Name: "p1", Heard: at(94), EnginesLive: 1}},
		Engines:   []subjects.EngineRecord{{Engine: "e0", Version: 11, Ready: true}},
		Bridges:   []Bridge{{Name: "b", Heard: at(94), Trainers: 1}}, HintAt: at(94.9)}
	change(p)
	return p
}

func waits(o grouper.Outlook) func(*Picture) { return func(p *Picture) { p.View.Next = o } }

func held(tasks ...string) (out []subjects.HeldLease) {
	for _, t := range tasks {
		out = append(out, subjects.HeldLease{Task: t, Age: 90})
	}
	return out
}

func outcomes(n int, o subjects.Outcome) (out []subjects.Outcome) {
	for range n {
		out = append(out, o)
	}
	return out
}

func TestDiagnose_NamesTheMostSpecificCause(t *testing.T) {
	commit := waits(grouper.Outlook{Wait: grouper.WaitCommit, Step: 12})
	inspect := waits(grouper.Outlook{Wait: grouper.WaitInspection})
	for _, c := range []struct {
		name   string
		change func(*Picture)
		stage  string
		code   subjects.StallCode
		text   string
	}{
		{"nobody ever came", func(p *Picture) { p.Producers = nil }, subjects.StageProducer, subjects.NoProducers,
			"grouper waits for 3 slots of group t41: no producer is connected"},
		{"nobody ever came, and there is no engine either", func(p *Picture) { p.Producers, p.Engines = nil, nil }, subjects.StageProducer, subjects.NoProducers, "no producer"},
		{"the only one left", func(p *Picture) { p.Producers[0].Heard = at(33) }, subjects.StageProducer, subjects.NoProducers,
			"no producer is connected; the last one, p1, was heard of 62 s ago"},
		{"the only one died with the slots", func(p *Picture) {
			p.Producers[0].Heard, p.Producers[0].Leases, p.Producers[0].LeasesAt = at(0), held("t41/0/0"), at(0)
		}, subjects.StageProducer, subjects.NoProducers,
			"3 slots of group t41, leased to producer p1 for 185 s, last heartbeat 95 s ago; no producer is connected"},
		{"one of two died with the slots", func(p *Picture) {
			p.Producers = append(p.Producers, Producer{Name: "p2", Heard: at(0), Leases: held("t41/0/0", "t41/1/0"), LeasesAt: at(0)})
		}, subjects.StageProducer, subjects.SlotsLeased, "grouper waits for 3 slots of group t41, leased to producer p2 for 185 s, last heartbeat 95 s ago"},
		{"a live one holds them", func(p *Picture) {
			p.Producers[0].Leases, p.Producers[0].LeasesAt = held("t41/0/0", "t410/1/0"), at(93)
			p.Producers = append(p.Producers, Producer{Name: "p2", Heard: at(0), Leases: held("t41/0/0"), LeasesAt: at(0)})
		}, subjects.StageProducer, subjects.SlotsLeased, "leased to producer p1 for 92 s, last heartbeat 1 s ago"},
		{"two hold them", func(p *Picture) {
			p.Producers[0].Leases, p.Producers[0].LeasesAt = held("t41/0/0"), at(94)
			p.Producers = append(p.Producers, Producer{Name: "p2", Heard: at(94), EnginesLive: 1, Leases: held("t41/1/0"), LeasesAt: at(90)})
		}, subjects.StageProducer, subjects.SlotsLeased, "leased to producer p2 for 95 s, last heartbeat 1 s ago, and to 1 more"},
		{"an evaluation's episodes", func(p *Picture) {
			waits(grouper.Outlook{Wait: grouper.WaitEpisodes, Step: 30, Missing: 2})(p)
			p.Producers[0].Leases, p.Producers[0].LeasesAt = held("e30-7/1/0"), at(95)
		}, subjects.StageProducer, subjects.SlotsLeased, "2 episodes of the evaluation at step 30, leased to producer p1 for 90 s"},
		{"others keep them busy", func(p *Picture) { p.Producers[0].Held = 192 }, subjects.StageProducer, subjects.SlotsLeased,
			"in the queue, while producer p1 is at work on 192 others"},
		{"nobody takes one", func(*Picture) {}, subjects.StageProducer, subjects.NoProducers, "in the queue, and none is taken by producer p1"},
		{"no engine", func(p *Picture) { p.Engines = nil }, subjects.StageEngine, subjects.NoEngine, "no engine is registered"},
		{"no engine has weights", func(p *Picture) { p.Engines[0].Ready, p.Bridges[0].Says = false, "warm start 40/300" }, subjects.StageEngine, subjects.NoEngine,
			"no engine has weights yet (e0); it says: warm start 40/300"},
		{"no engine has weights for want of a trainer", func(p *Picture) { p.Engines[0].Ready, p.Bridges[0].Trainers = false, 0 },
			subjects.StageTrainer, subjects.WaitingTrainer, "no engine has weights, and no trainer is connected to the bridge b"},
		{"an engine that no producer reaches", func(p *Picture) { p.Producers[0].EnginesLive = 0 }, subjects.StageEngine, subjects.NoEngine,
			"no producer reaches an engine (e0 serves version 11)"},
		{"the registry may not be read", func(p *Picture) { p.EnginesKnown, p.Engines, p.Producers[0].EnginesLive = false, nil, 0 }, subjects.StageEngine, subjects.NoEngine, "no producer reaches an engine"},
		{"the log is full", func(p *Picture) {
			p.Producers[0].Blocked, p.Producers[0].Leases, p.RolloutBytes, p.RolloutLimit = true, held("t41/0/0"), 32<<30-1, 32<<30
		}, subjects.StageBus, subjects.RolloutsFull, "ROLLOUTS is full (32.0 GiB of 32.0 GiB)"},
		{"a producer waits for room", func(p *Picture) { p.Producers[0].Blocked = true }, subjects.StageBus, subjects.RolloutsFull, "ROLLOUTS is full;"},

		{"no bridge", func(p *Picture) { commit(p); p.Bridges = nil }, subjects.StageBridge, subjects.BridgeGone,
			"grouper waits for the trainer's commit of step 12: no bridge is connected"},
		{"the bridge died", func(p *Picture) { commit(p); p.Bridges[0].Heard = at(60) }, subjects.StageBridge, subjects.BridgeGone, "the bridge b was last heard of 35 s ago"},
		{"no trainer", func(p *Picture) { commit(p); p.Bridges[0].Trainers = 0 }, subjects.StageTrainer, subjects.WaitingTrainer, "no trainer is connected to the bridge b"},
		{"another bridge has one", func(p *Picture) {
			commit(p)
			p.Bridges = append(p.Bridges, Bridge{Name: "c", Heard: at(95)}, Bridge{Name: "d", Heard: at(10), Trainers: 3})
			p.Bridges[0].Ready = 1
		}, subjects.StageTrainer, subjects.WaitingTrainer, "its batch is ready and the trainer has not asked for it"},
		{"the trainer does not commit", func(p *Picture) { commit(p); p.Bridges[0].Delivered = 12 }, subjects.StageTrainer, subjects.WaitingTrainer, "has not committed it"},
		{"the bridge does not build", commit, subjects.StageBridge, subjects.NoBatch, "the bridge b has not built its batch"},
		{"no inspector", func(p *Picture) { inspect(p); p.Bridges, p.HintAt = nil, time.Time{} }, subjects.StageBridge, subjects.BridgeGone, "no bridge is connected, so nobody inspects"},
		{"the inspector died", func(p *Picture) { inspect(p); p.HintAt = at(20) }, subjects.StageBridge, subjects.BridgeGone, "last heard of 75 s ago"},
		{"the inspector is behind", func(p *Picture) { inspect(p); p.Inspected, p.Last = 100, 400 }, subjects.StageBridge, subjects.InspectorBehind, "up to 100 of 400"},
		{"an engine is behind", waits(grouper.Outlook{Wait: grouper.WaitVersion, Version: 12}), subjects.StageEngine, subjects.NoEngine,
			"grouper waits for an engine to serve version 12: e0 serves version 11"},
		{"external, silent", func(p *Picture) {
			waits(grouper.Outlook{Wait: grouper.WaitMembers, Group: "a", Missing: 2})(p)
			p.Producers = nil
		}, subjects.StageProducer, subjects.NoProducers, "grouper waits for 2 more of group a: no producer is connected"},
		{"external", waits(grouper.Outlook{Wait: grouper.WaitAnything}), subjects.StageProducer, subjects.NoBatch, "grouper waits for trajectories: nothing comes from producer p1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := slots(c.change).Diagnose()
			if got.Stage != c.stage || got.Code != c.code || !strings.Contains(got.Text, c.text) {
				t.Errorf("got %s %s: %s\nwant %s %s: ...%s", got.Stage, got.Code, got.Text, c.stage, c.code, c.text)
			}
		})
	}
}

func TestLook_FindsALivelock(t *testing.T) {
	mixed := append(outcomes(6, subjects.ZeroVariance), outcomes(4, subjects.TooFew)...)
	for _, c := range []struct {
		name   string
		closed []subjects.Outcome
		code   subjects.StallCode
		text   string
		end    string
	}{
		{"zero variance", outcomes(10, subjects.ZeroVariance), subjects.AllZeroVariance, "all of the last 10 groups were zero-variance", subjects.EndAllFiltered},
		{"stale", outcomes(10, subjects.Stale), subjects.AllStale, "stale: too old for the batch of step 13; e0 serves version 11", subjects.EndAllStale},
		{"filtered", mixed, subjects.AllFiltered, "dropped: 6 zero variance, 4 too few", subjects.EndAllFiltered},
		{"too early to tell", outcomes(9, subjects.Stale), "", "", ""},
		{"one was kept", append(outcomes(9, subjects.Stale), subjects.Kept), "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := New(Config{After: time.Minute, EndAfter: 90 * time.Second})
			r := w.Look(slots(func(p *Picture) { p.Moved, p.Closed = at(94), c.closed })) // things move, and no batch comes
			if c.code == "" {
				if r.Stall != nil || r.End != "" {
					t.Fatalf("reports %+v", r.Stall)
				}
				return
			}
			if r.Stall == nil || r.Stall.Code != c.code || !strings.Contains(r.Stall.Text, c.text) || r.Stall.Since != at(0).UnixNano() || r.End != c.end {
				t.Errorf("reports %+v, end %q", r.Stall, r.End)
			}
		})
	}
}

func TestLook_InspectorThatCannotKeepUpIsALivelock(t *testing.T) {
	w := New(Config{})
	r := w.Look(slots(func(p *Picture) { p.Moved, p.View.Next = at(94), grouper.Outlook{Wait: grouper.WaitInspection} }))
	if r.Stall == nil || r.Stall.Code != subjects.InspectorBehind || r.End != "" {
		t.Errorf("reports %+v", r.Stall)
	}
}

// TestLook_SaysItOnceThenAgainAndWhenItIsOver goes through a stall second by second.
func TestLook_SaysItOnceThenAgainAndWhenItIsOver(t *testing.T) {
	w := New(Config{After: time.Minute, EndAfter: 200 * time.Second})
	var said, hinted []int
	var ends []string
	moved := 0.0
	for s := range 250 {
		if s >= 230 {
			moved = 230
		}
		r := w.Look(slots(func(p *Picture) {
			p.Now, p.Moved, p.Progressed = at(float64(s)), at(moved), at(moved)
			p.Producers = nil
			if s >= 100 { // a producer comes, and takes nothing for want of an engine
				p.Producers, p.Engines = []Producer{{Name: "p1", Heard: at(float64(s))}}, nil
			}
		}))
		if r.Stall != nil {
			said = append(said, s)
			if code := r.Stall.Code; (s < 100 && code != subjects.NoProducers) || (s >= 100 && s < 230 && code != subjects.NoEngine) || (s >= 230 && code != "") {
				t.Errorf("at %d s: %+v", s, r.Stall)
			}
		}
		if r.Hint != nil {
			hinted = append(hinted, s)
		}
		if r.End != "" {
			ends = append(ends, r.End)
		}
	}
	if want := []int{60, 100, 160, 220, 230}; !equal(said, want) {
		t.Errorf("said at %v, want %v", said, want)
	}
	if hinted[0] != 3 || len(hinted) != 230-3+20-3 {
		t.Errorf("%d hints from %d s on", len(hinted), hinted[0])
	}
	if len(ends) != 1 || ends[0] != subjects.EndEngineGone {
		t.Errorf("ends %v", ends)
	}
}

func equal(a, b []int) bool {
	for i := range b {
		if i >= len(a) || a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestLook_TroubleOfTheGrouperItselfComesFirst(t *testing.T) {
	w := New(Config{After: time.Second, EndAfter: 5 * time.Second})
	r := w.Look(slots(func(p *Picture) {
		p.Trouble, p.TroubleAt = Cause{subjects.StageBus, subjects.DiskFull, "the server has no room"}, at(90)
	}))
	if r.Stall == nil || r.Stall.Code != subjects.DiskFull || r.End != subjects.EndDiskFull || r.Stall.Seconds() != 5 {
		t.Errorf("reports %+v, end %q", r.Stall, r.End)
	}
}

func TestLook_SaysNothingOfARunThatHasEnded(t *testing.T) {
	r := New(Config{}).Look(slots(waits(grouper.Outlook{Wait: grouper.WaitNothing, Ended: subjects.EndComplete})))
	if r.Stall != nil || r.Hint != nil || r.End != "" {
		t.Errorf("reports %+v", r)
	}
}

func TestEndOf_ATrainerThatIsAwayEndsNoRun(t *testing.T) {
	for _, c := range subjects.StallCodes() {
		end := endOf(c)
		switch c {
		case subjects.NoProducers, subjects.NoEngine, subjects.AllStale, subjects.AllZeroVariance, subjects.AllFiltered, subjects.RolloutsFull, subjects.DiskFull:
			if end == "" || subjects.Achieved(end) {
				t.Errorf("%s ends a run as %q", c, end)
			}
		default:
			if end != "" {
				t.Errorf("%s ends a run as %q", c, end)
			}
		}
	}
}

func TestConfig_Validate(t *testing.T) {
	for _, c := range []struct {
		cfg   Config
		field string
	}{
		{Config{}, ""}, {Config{After: time.Second, EndAfter: time.Second}, ""},
		{Config{After: time.Millisecond}, "after"}, {Config{After: -time.Second}, "after"},
		{Config{EndAfter: 30 * time.Second}, "end_after"}, {Config{EndAfter: -1}, "end_after"},
	} {
		err := c.cfg.Validate()
		var field *grouper.FieldError
		if (c.field == "") != (err == nil) || c.field != "" && (!errors.As(err, &field) || field.Field != c.field) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}
