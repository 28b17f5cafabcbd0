package advise

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/consumers/advise/simtest"
	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/subjects"
)

// simulated runs: for each rule at least one that it is for, and one beside it
// that it is not for. not lists what may not be said of the run at all.
var simulated = []struct {
	name string
	vary func(*simtest.Run)
	want string // first
	not  []string
	also string
}{
	{"engines and trainer are at work", func(*simtest.Run) {}, Balanced,
		[]string{EngineBound, EnvironmentBound, TrainerBound, LongTail, Staleness, ZeroVariance, PrefixCache, Recompiles, SmallBatches}, ""},

	{"answers are long", func(r *simtest.Run) { r.Answer = 200 }, EngineBound, []string{EnvironmentBound, LongTail, SmallBatches, Staleness}, ""},
	{"answers are long, of engines that say nothing of their device", func(r *simtest.Run) { r.Answer, r.DeviceSilent = 200, true }, EngineBound, []string{EnvironmentBound, TrainerBound}, ""},
	{"engines do everything but compute", func(r *simtest.Run) { r.HostTime = .06 }, EngineBound, []string{TrainerBound, SmallBatches, EnvironmentBound}, ""},
	{"answers are long, for a trainer that is slower", func(r *simtest.Run) { r.Answer, r.TrainTime = 200, 8 }, TrainerBound, []string{EngineBound}, ""},

	{"the environment takes seconds", func(r *simtest.Run) { r.EnvTime = 2 }, EnvironmentBound, []string{EngineBound, SmallBatches, LongTail}, ""},
	{"the environment takes seconds, and there are many slots", func(r *simtest.Run) { r.EnvTime, r.Slots, r.GroupsPerBatch, r.TrainTime = 1, 640, 40, 6 }, Balanced, []string{EnvironmentBound}, ""},

	{"the trainer takes seconds", func(r *simtest.Run) { r.TrainTime = 4 }, TrainerBound, []string{Balanced, EngineBound, Staleness, Recompiles}, ""},
	{"the trainer writes for seconds", func(r *simtest.Run) { r.PublishTime, r.CheckpointTime = 1, 3 }, TrainerBound, []string{Balanced, EngineBound}, ""},

	{"a few episodes are slow", func(r *simtest.Run) {
		r.MaxStaleness, r.SlowPart, r.SlowBy, r.TrainTime, r.EnvTime = 0, .02, 60, .3, .1
	}, LongTail, []string{EngineBound, SmallBatches}, ""},
	{"hardly an episode is slow, but every batch waits for one", func(r *simtest.Run) {
		r.MaxStaleness, r.SlowPart, r.SlowBy, r.TrainTime, r.EnvTime, r.GroupsPerBatch, r.Slots, r.Seconds = 0, .005, 120, .3, .1, 32, 320, 600
	}, LongTail, []string{EngineBound, SmallBatches}, ""},
	{"a few episodes are slow, others go ahead of them", func(r *simtest.Run) {
		r.MaxStaleness, r.SlowPart, r.SlowBy, r.EnvTime, r.TrainTime = 8, .002, 30, .1, 1.4
	}, Balanced, []string{LongTail, Staleness}, ""},

	{"on policy", func(r *simtest.Run) { r.MaxStaleness = 0 }, Staleness, []string{LongTail, TrainerBound, Balanced}, ""},
	{"on policy, next to a trainer that takes no time", func(r *simtest.Run) { r.MaxStaleness, r.TrainTime = 0, .05 }, EngineBound, []string{Staleness}, ""},
	{"slow groups are too old when they come", func(r *simtest.Run) { r.SlowPart, r.SlowBy, r.EnvTime, r.TrainTime = .05, 60, .1, .9 }, LongTail, []string{TrainerBound, SmallBatches, EngineBound}, Staleness},

	{"rewards are mostly equal", func(r *simtest.Run) { r.ZeroVariance = .7 }, ZeroVariance, []string{TrainerBound, Balanced}, ""},
	{"rewards are sometimes equal", func(r *simtest.Run) { r.ZeroVariance, r.Answer = .15, 100 }, EngineBound, []string{ZeroVariance}, ""},

	{"nothing is cached", func(r *simtest.Run) { r.CacheHit, r.Turns, r.Prompt, r.Answer, r.PromptTime = 0, 8, 100, 20, 1e-4 }, PrefixCache, []string{Balanced}, ""},
	{"most is cached", func(r *simtest.Run) { r.CacheHit, r.Turns, r.Prompt, r.Answer, r.PromptTime = .95, 8, 100, 20, 1e-4 }, EngineBound, []string{PrefixCache}, ""},

	{"every other step compiles", func(r *simtest.Run) { r.CompilePart, r.CompileTime = .5, 2 }, Recompiles, []string{EngineBound, Balanced}, ""},
	{"only the first step compiles, half a minute ago", func(r *simtest.Run) { r.CompileTime, r.Seconds, r.TrainTime = 20, 50, 3 }, TrainerBound, []string{Recompiles}, ""},
	{"a step in a hundred compiles", func(r *simtest.Run) { r.CompilePart, r.CompileTime, r.TrainTime = .01, 2, 4 }, TrainerBound, []string{Recompiles}, ""},

	{"there are few slots", func(r *simtest.Run) { r.Slots = 8 }, SmallBatches, []string{LongTail, EnvironmentBound, Balanced}, ""},
	{"the slots are taken, by episodes that think", func(r *simtest.Run) { r.Slots, r.EnvTime, r.HostTime = 40, .4, .02 }, SmallBatches, []string{TrainerBound, LongTail}, ""},
	{"few tasks are handed out", func(r *simtest.Run) { r.GroupsPerBatch, r.GroupSize, r.MaxStaleness, r.TrainTime = 1, 8, 0, .05 }, SmallBatches, []string{EnvironmentBound, TrainerBound}, ""},
}

func play(t *testing.T, r simtest.Run) *board.State {
	t.Helper()
	b, now := simtest.Play(r, Rules)
	s := b.State(now)
	if s.Trajectories.Produced != s.Trajectories.Trained+s.Trajectories.Dropped["zero_variance"]+s.Trajectories.Dropped["stale"]+s.Trajectories.Open {
		t.Errorf("the account does not add up: %+v", s.Trajectories)
	}
	return &s
}

func codes(list []board.Advice) (out []string) {
	for _, a := range list {
		out = append(out, a.Code)
	}
	return out
}

func TestRules_SayWhatIsTrueByConstruction(t *testing.T) {
	for _, c := range simulated {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(3) {
				r := simtest.Base()
				c.vary(&r)
				r.Seed = seed
				got := play(t, r).Advice
				if got[0].Code != c.want {
					t.Errorf("seed %d: %s: %s, want %s", seed, got[0].Code, got[0].Text, c.want)
				}
				if c.also != "" && !slices.Contains(codes(got), c.also) {
					t.Errorf("seed %d: says %v, not %s", seed, codes(got), c.also)
				}
				for _, code := range codes(got) {
					if slices.Contains(c.not, code) {
						t.Errorf("seed %d: says %v", seed, codes(got))
					}
				}
			}
		})
	}
}

// TestRules_OfARunThatEndedAreOfAllOfIt: what limited it, not what its last
// minute was like.
func TestRules_OfARunThatEndedAreOfAllOfIt(t *testing.T) {
	for _, c := range simulated {
		t.Run(c.name, func(t *testing.T) {
			r := simtest.Base()
			c.vary(&r)
			b, now := simtest.Play(r, Rules)
			for i := range 90 { // nothing but reports after the last step
				at := now.Add(time.Duration(i+1) * time.Second)
				b.Report(&subjects.Gauges{Role: "bridge", Instance: "up", At: at.UnixNano(), Values: map[string]float64{"trainers": 1}}, at)
			}
			b.Entry(&subjects.Entry{At: now.UnixNano(), End: subjects.EndComplete})
			if got := b.State(now.Add(24 * time.Hour)).Advice; got[0].Code != c.want {
				t.Errorf("%v, first %s, want %s", codes(got), got[0].Text, c.want)
			}
		})
	}
}

// TestRules_AreTheSameOfLongSteps: what takes a minute instead of a second is the
// same run, looked at for longer.
func TestRules_AreTheSameOfLongSteps(t *testing.T) {
	for _, c := range simulated {
		t.Run(c.name, func(t *testing.T) {
			r := simtest.Base()
			c.vary(&r)
			if got := play(t, r.Slower(30)).Advice; got[0].Code != c.want {
				t.Errorf("%v, first %s, want %s", codes(got), got[0].Text, c.want)
			}
		})
	}
}

func TestRules_EachHasARunThatTriggersItAndOneThatDoesNot(t *testing.T) {
	for _, code := range Codes() {
		if code == NotEnoughData || code == Stall {
			continue // below
		}
		var is, not bool
		for _, c := range simulated {
			is, not = is || c.want == code, not || slices.Contains(c.not, code)
		}
		if !is || !not {
			t.Errorf("%s: a run that it is first for: %v, a run that it is not said of: %v", code, is, not)
		}
	}
}

func TestRules_WaitForTheThirdStep(t *testing.T) {
	r := simtest.Base()
	r.Seconds = 2
	s := play(t, r)
	if got := codes(s.Advice); s.Step.Committed >= fewestSteps || !slices.Equal(got, []string{NotEnoughData}) {
		t.Errorf("after %d steps: %v", s.Step.Committed, got)
	}
	r.Seconds = 20
	if got := play(t, r); got.Advice[0].Code == NotEnoughData {
		t.Errorf("after %d steps: %v", got.Step.Committed, codes(got.Advice))
	}
}

func TestRules_AStallComesFirst(t *testing.T) {
	b, now := simtest.Play(simtest.Base(), Rules)
	s := b.State(now)
	s.Stall = &board.Stall{Code: "no_engine", Text: "no engine serves the run", Since: s.Now - 60}
	got := Rules(&board.View{State: &s, Series: &board.Series{}})
	if got[0].Code != Stall || !strings.Contains(got[0].Text, "no engine serves the run") || got[0].Evidence[0].Value != 60 {
		t.Errorf("says %+v", got)
	}
}

// TestRules_AWaitCountsBeforeItEnds: of a trainer that limits its run until it
// gets nothing any more; and a wait as long as a step says nothing yet.
func TestRules_AWaitCountsBeforeItEnds(t *testing.T) {
	r := simtest.Base()
	r.TrainTime = 4
	for waits, want := range map[float64]bool{1: false, 120: true} {
		b, now := simtest.Play(r, Rules)
		before := b.State(now)
		values := map[string]float64{"trainers": 1, "committed_step": float64(before.Step.Committed), "step_wait_seconds": waits, "step_train_seconds": 0}
		b.Report(&subjects.Gauges{Role: "bridge", Instance: "up", Values: values}, now)
		after := b.State(now).Advice[0]
		if before.Advice[0].Code != TrainerBound || (after.Code != TrainerBound) != want {
			t.Errorf("%s, then, after %v s of waiting, %s", before.Advice[0].Text, waits, after.Text)
		}
	}
}

// TestRules_MoreSlotsAreNoHelpWhereSlotsAreFree: what is true of an environment
// that takes seconds, however many may play in it.
func TestRules_MoreSlotsAreNoHelpWhereSlotsAreFree(t *testing.T) {
	for slots, knob := range map[int]string{64: "producer.episodes", 640: "grouper.max_staleness"} {
		r := simtest.Base()
		r.EnvTime, r.Slots = 2, slots
		if got := play(t, r).Advice[0]; got.Code != EnvironmentBound || !strings.Contains(got.Knob, knob) {
			t.Errorf("%d slots: %s: %s", slots, got.Text, got.Knob)
		}
	}
}

// TestRules_AnAdviceKeepsItsBeginning: since is when it was said first.
func TestRules_AnAdviceKeepsItsBeginning(t *testing.T) {
	r := simtest.Base()
	r.Answer = 200
	b, now := simtest.Play(r, Rules)
	first := b.State(now).Advice[0]
	later := b.State(now.Add(5e9)).Advice[0]
	if first.Code != later.Code || first.Since != later.Since {
		t.Errorf("%s since %v, later %s since %v", first.Code, first.Since, later.Code, later.Since)
	}
}

// TestRules_KnobsAreInTheConfiguration: what a sentence tells a user to turn is
// a field that the documentation has.
func TestRules_KnobsAreInTheConfiguration(t *testing.T) {
	doc, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	field := regexp.MustCompile(`\b([a-z]+)\.([a-z_]+)(?:\.([a-z_]+))?\b`)
	seen := 0
	for _, c := range simulated {
		r := simtest.Base()
		c.vary(&r)
		for _, a := range play(t, r).Advice {
			if a.Knob == "" || len(a.Evidence) == 0 || !strings.HasSuffix(a.Text, ".") {
				t.Errorf("%s is not whole: %+v", a.Code, a)
			}
			for _, m := range field.FindAllStringSubmatch(a.Knob, -1) {
				seen++
				section, name := "## "+m[1]+"\n", m[2]
				if m[3] != "" {
					section, name = "## "+m[1]+"."+m[2]+"\n", m[3]
				}
				_, part, ok := strings.Cut(string(doc), section)
				part, _, _ = strings.Cut(part, "\n## ")
				if !ok || !strings.Contains(part, "`"+name+"`") {
					t.Errorf("%s names %s, which docs/configuration.md does not have", a.Code, m[0])
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d fields named", seen)
	}
}
