//go:build whole

package wholetest

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// checkpointed is a step whose checkpoint is still there at the end.
const checkpointed = 8

// TestRun_WatchedThenReplayedToTheBit plays a run that is tapped, replayed and
// exported over and over while it lives, and then wants of the log: an audit that
// passes, two replays and two exports that are equal, its own ledger byte for byte
// from its own policy, and, from a trainer that starts at the checkpoint of a step,
// every number of every later step to the bit.
func TestRun_WatchedThenReplayedToTheBit(t *testing.T) {
	p := newProgram(t)
	run := p.up(t)
	p.waitForStep(t, run, 1)
	looks := p.watch(t)
	if err := run.wait(patience); err != nil {
		t.Fatalf("run: %v\n%s", err, run.output())
	}
	if n := looks(); n < 3 {
		t.Errorf("the run was looked at %d times", n)
	}
	var audit struct {
		OK bool `json:"ok"`
	}
	p.json(t, &audit, "audit")
	if !audit.OK {
		t.Error("the audit of a run that was watched does not pass")
	}
	type digest struct {
		Digest       string `json:"digest"`
		Trajectories int    `json:"trajectories"`
		Rows         int    `json:"rows"`
	}
	for _, args := range [][]string{{"replay"}, {"export", "--output", filepath.Join(t.TempDir(), "run.jsonl")}} {
		var first, second digest
		p.json(t, &first, args...)
		if args[0] == "export" {
			args = []string{"export", "--output", args[2] + "-again"}
		}
		p.json(t, &second, args...)
		if first != second || first.Digest == "" || first.Trajectories == 0 {
			t.Errorf("%s gives %+v, then %+v", args[0], first, second)
		}
	}
	var own struct {
		Own           bool
		Entries, Same int
	}
	p.json(t, &own, "regroup")
	if !own.Own || own.Entries == 0 || own.Same != own.Entries {
		t.Errorf("its own policy gives %+v", own)
	}
	p.checkTrainedAgain(t)
}

// watch looks at a live run as fast as it can, in every way there is, until it has
// ended; the returned function then says how often.
func (p *program) watch(t *testing.T) (looks func() int) {
	t.Helper()
	tap := p.start(t, exec.Command(p.binary, "tail", "whole", "--dir", p.dir, "--json"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	n := 0
	for _, args := range [][]string{{"replay", "whole"}, {"export", "whole", "--output", "-"}} {
		wg.Go(func() {
			for !p.ended() {
				if _, err := p.run(append(args, "--dir", p.dir)...); err == nil {
					mu.Lock()
					n++
					mu.Unlock()
				}
			}
		})
	}
	return func() int {
		wg.Wait()
		if err := tap.wait(patience); err != nil {
			t.Errorf("tail: %v after %d bytes", err, tap.out.Len())
		}
		if bytes.Count(tap.out.Bytes(), []byte("\n")) == 0 {
			t.Error("the tap saw nothing")
		}
		return n
	}
}

// ended reports whether the run's server has gone.
func (p *program) ended() bool {
	_, err := os.Stat(filepath.Join(p.dir, "whole", "nats.json"))
	return err != nil
}

// json runs a command on the run and reads the last line or value that it prints.
func (p *program) json(t *testing.T, v any, args ...string) {
	t.Helper()
	out, err := p.run(append([]string{args[0], "whole", "--dir", p.dir, "--json"}, args[1:]...)...)
	for printed := json.NewDecoder(bytes.NewReader(out)); err == nil && printed.More(); {
		err = printed.Decode(v)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%.2000s", args, err, out)
	}
}

// commit is what a trainer says of a step, without how long it took.
type commit struct {
	Step    int                `json:"step"`
	Tokens  int                `json:"tokens"`
	Metrics map[string]float64 `json:"metrics"`
}

// checkTrainedAgain starts a trainer at a checkpoint of the run and feeds it the
// later batches.
func (p *program) checkTrainedAgain(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hr") // socket paths are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // a temporary folder
	const saved = "checkpoints/step-000000008"
	if err := os.CopyFS(filepath.Join(dir, saved), os.DirFS(filepath.Join(p.dir, "whole", saved))); err != nil {
		t.Fatal(err)
	}
	out, err := p.run("replay", "whole", "--dir", p.dir, "--to", "trainer", "--out", dir, "--json", "--", python(t), "-m", "headrace.trainer")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	steps := json.NewDecoder(bytes.NewReader(out))
	next := checkpointed + 1
	for ; steps.More(); next++ {
		var again commit
		if err := steps.Decode(&again); err != nil || again.Step != next {
			t.Fatalf("step %d after step %d: %v", again.Step, next-1, err)
		}
		var once struct {
			Commit commit `json:"commit"`
		}
		p.json(t, &once, "show", "step", strconv.Itoa(next))
		p.sameBits(t, once.Commit, again)
	}
	if next != lastStep+1 {
		t.Errorf("trained up to step %d, want %d", next-1, lastStep)
	}
}

func (p *program) sameBits(t *testing.T, once, again commit) {
	t.Helper()
	if once.Tokens != again.Tokens || len(once.Metrics) < 8 {
		t.Errorf("step %d: %d tokens, then %d; %d metrics", once.Step, once.Tokens, again.Tokens, len(once.Metrics))
	}
	for name, x := range once.Metrics {
		if name == "compiles" || name == "compile_seconds" {
			continue // of the process
		}
		if y, ok := again.Metrics[name]; !ok || math.Float64bits(x) != math.Float64bits(y) {
			t.Errorf("step %d: %s was %v, then %v", once.Step, name, x, y)
		}
	}
}
