package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// recorded makes the folder of a stopped run with two trajectories, the second
// of which step 1 trained on.
func (p *place) recorded(t *testing.T) (root string) {
	t.Helper()
	root = p.stopped(t, &subjects.Entry{V: 1, At: 1, Writer: "g", Rollouts: 2, Batches: []subjects.Batch{{Step: 1,
		Groups: []subjects.BatchGroup{{Group: "t1", Environment: "frozenlake", Members: []subjects.Member{{Seq: 2}}}}}}})
	server, err := bus.StartServer(t.Context(), bus.ServerOptions{StoreDir: filepath.Join(root, "lake", "nats"), Sync: "10m"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	conn, err := bus.Connect(t.Context(), server.Options())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // all is acknowledged
	pub := bus.NewPublisher(conn, bus.PublisherConfig{Run: "lake", Producer: "p1"})
	for _, g := range []subjects.GroupID{"t0", "t1"} {
		tr := &subjects.Trajectory{Kind: subjects.Train, Group: g, Environment: "frozenlake", Producer: "p1", Tokenizer: "words", Status: subjects.Succeeded, Reward: 1,
			Segments: []subjects.Segment{{Parent: -1, Tokens: []int32{1, 2, 3}, Logprobs: []float32{-1}, Versions: []subjects.VersionSpan{{Start: 2, End: 3}}, LossMask: []subjects.Span{{Start: 2, End: 3}}}},
			Messages: []subjects.Message{{Role: "user", Content: "wohin, größer?"}}}
		if _, err := pub.Publish(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return root
}

var digest = regexp.MustCompile(`digest (sha256:[0-9a-f]{64})`)

func TestReplay_TwiceHasOneDigest(t *testing.T) {
	p := newPlace(t)
	root := p.recorded(t)
	sum := func(want string, args ...string) string {
		t.Helper()
		out, _ := run(t, exitOK, append([]string{"replay", "lake", "--dir", root}, args...)...)
		if m := digest.FindStringSubmatch(out); m != nil && strings.Contains(out, want) {
			return m[1]
		}
		t.Errorf("%v: no digest, or no %q in\n%s", args, want, out)
		return ""
	}
	all := sum("t1/0/0")
	if again := sum("replayed 2 trajectories", "--speed", "100x"); again != all {
		t.Errorf("digest %s, then %s", all, again)
	}
	file := filepath.Join(p.dir, "out.jsonl")
	if one := sum("to "+file, "--step", "1", "--to", "file:"+file); one == all || one != sum("wohin", "--group", "t1", "--bodies") {
		t.Errorf("step 1 has the digest %s", one)
	}
	text, err := os.ReadFile(file)
	var r app.Replayed
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || r.Step != 1 || r.ID != "t1/0/0" || len(r.Trajectory.Segments[0].Tokens) != 3 {
		t.Errorf("%s: %v", text, err)
	}
	_, errs := run(t, exitFailed, "replay", "lake", "--dir", root, "--to", "file:"+file)
	if !strings.Contains(errs, "is there already") {
		t.Errorf("says %s", errs)
	}
}

func TestReplay_RefusesWhatIsUnclear(t *testing.T) {
	p := newPlace(t)
	root := p.recorded(t)
	for _, c := range []struct{ flag, value, want string }{
		{"--to", "paper", "want terminal"}, {"--speed", "fast", "want original"}, {"--step", "x", "as in 3..5"}, {"--step", "4..2", "the first"},
		{"--status", "fine", "succeeded"}, {"--since", "noon", "such as 10m"}, {"--until-step", "-1", "from 1"},
	} {
		if _, errs := run(t, exitUsage, "replay", "lake", "--dir", root, c.flag, c.value); !strings.Contains(errs, c.want) {
			t.Errorf("%s %s says %s", c.flag, c.value, errs)
		}
	}
	run(t, exitFailed, "replay", "lake", "--dir", root, "--step", "7")
	run(t, exitFailed, "tail", "gone", "--dir", root)
}

func TestRegroup_OfAForgedLedgerExitsWithFour(t *testing.T) {
	p := newPlace(t)
	root := p.recorded(t)
	out, errs := run(t, exitCheck, "regroup", "lake", "--dir", root)
	if !strings.Contains(out, "0 of 1 ledger entries come out byte for byte") || !strings.Contains(errs, "headrace audit lake") {
		t.Errorf("says %s%s", out, errs)
	}
	policy := filepath.Join(p.dir, "p.yaml")
	p.write(t, policy, "group_size: 2\n")
	if out, _ = run(t, exitOK, "regroup", "lake", "--dir", root, "--policy", policy); !strings.Contains(out, "batches differ from step 1 on") {
		t.Errorf("says %s", out)
	}
	run(t, exitOK, "regroup", "lake", "--dir", root, "--policy", policy, "--to", "run:anew")
	if out, _ = run(t, exitOK, "show", "anew", "--dir", root, "--json"); !strings.Contains(out, `"end": "cancelled"`) {
		t.Errorf("the new run: %s", out)
	}
	run(t, exitUsage, "regroup", "lake", "--dir", root, "--policy", policy, "--to", "anew")
	run(t, exitUsage, "regroup", "lake", "--dir", root, "--policy", policy, "--to", "run:anew")
	p.write(t, policy, "group_sice: 2\n")
	run(t, exitUsage, "regroup", "lake", "--dir", root, "--policy", policy)
}

func TestDiff_OfARunWithItself(t *testing.T) {
	p := newPlace(t)
	root := p.recorded(t)
	if out, _ := run(t, exitOK, "diff", "lake", "lake", "--dir", root); !strings.Contains(out, "all batches are the same") {
		t.Errorf("says %s", out)
	}
	run(t, exitFailed, "diff", "lake", "gone", "--dir", root)
}

func TestReplay_CopiesWholeRunsOnly(t *testing.T) {
	p := newPlace(t)
	root := p.recorded(t)
	out, _ := run(t, exitOK, "replay", "lake", "--dir", root, "--to", "run:copy")
	if !strings.Contains(out, "copied 2 trajectories") || !digest.MatchString(out) {
		t.Errorf("says %s", out)
	}
	run(t, exitOK, "diff", "lake", "copy", "--dir", root)
	run(t, exitUsage, "replay", "lake", "--dir", root, "--to", "run:copy")
	for _, args := range [][]string{{"--to", "run:x", "--group", "t1"}, {"--to", "run:X"}, {"--to", "trainer", "--speed", "10x"}, {"--", "trainer"}, {"--to", "run:x", "--", "trainer"}} {
		run(t, exitUsage, append([]string{"replay", "lake", "--dir", root}, args...)...)
	}
	run(t, exitFailed, "replay", "lake", "--dir", root, "--to", "trainer", "--until-step", "7")
}
