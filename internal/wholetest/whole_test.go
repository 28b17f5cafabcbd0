//go:build whole

package wholetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	lastStep   = 12
	killedFrom = 6 // steps trained before the kill: past the checkpoint of step 4
	patience   = 4 * time.Minute
)

// TestRun_KilledAndResumedTrainsTheSameBatches starts every role and process,
// kills them all with SIGKILL in the middle, resumes, and wants the run to end
// with the batches it would have had: those that were decided before the kill
// unchanged in the ledger, those that the trainer gets again equal byte for
// byte, and every step trained on, in order.
func TestRun_KilledAndResumedTrainsTheSameBatches(t *testing.T) {
	p := newProgram(t)
	first := p.up(t)
	p.waitForStep(t, first, killedFrom)
	before := p.batches(t)
	first.kill(t)

	second := p.up(t, "--resume")
	if err := second.wait(patience); err != nil {
		t.Fatalf("resumed run: %v\n%s", err, second.output())
	}
	after := p.batches(t)
	if len(after) != lastStep {
		t.Fatalf("%d batches in the ledger, want %d", len(after), lastStep)
	}
	for step, batch := range before {
		if after[step] != batch {
			t.Errorf("batch of step %d changed:\n%s\n%s", step, batch, after[step])
		}
	}
	checkDeliveries(t, p.deliveries(t))
	var s struct {
		End   string `json:"end"`
		Steps int    `json:"steps"`
		Eval  []struct {
			Step   int `json:"step"`
			Failed int `json:"failed"`
		} `json:"eval"`
	}
	p.show(t, &s)
	if s.End != "complete" || s.Steps != lastStep || len(s.Eval) != 3 {
		t.Errorf("summary %+v; want complete after %d steps with 3 evaluations", s, lastStep)
	}
}

// checkDeliveries wants the trainer to have been given every step, in order
// within each of its starts, and the same bytes whenever a step came again.
func checkDeliveries(t *testing.T, starts [][]delivery) {
	t.Helper()
	if len(starts) < 2 {
		t.Fatalf("the trainer started %d times, want at least 2", len(starts))
	}
	digests, again := map[int]string{}, 0
	for i, start := range starts {
		for k, d := range start {
			if k > 0 && d.step != start[k-1].step+1 {
				t.Errorf("start %d: step %d after step %d", i, d.step, start[k-1].step)
			}
			switch known, seen := digests[d.step]; {
			case !seen:
				digests[d.step] = d.digest
			case known != d.digest:
				t.Errorf("step %d was %s, then %s", d.step, known, d.digest)
			default:
				again++
			}
		}
	}
	if len(digests) != lastStep {
		t.Errorf("%d different steps were trained, want %d", len(digests), lastStep)
	}
	if again == 0 {
		t.Error("no step was given twice: the kill came too early to test anything")
	}
}

// program is the binary with a folder of its own.
type program struct{ binary, dir, recipe string }

func newProgram(t *testing.T) *program {
	t.Helper()
	t.Setenv("HEADRACE_NICE", "0") // what is looked at is what comes, not how long it takes on a busy machine
	dir := t.TempDir()
	p := &program{binary: filepath.Join(dir, "headrace"), dir: filepath.Join(dir, "runs")}
	var err error
	if p.recipe, err = filepath.Abs("testdata/recipe.yaml"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", p.binary, "../../cmd/headrace").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return p
}

// process is one `headrace up` or `headrace produce`.
type process struct {
	cmd  *exec.Cmd
	out  *bytes.Buffer
	done chan error
}

func (p *program) up(t *testing.T, args ...string) *process {
	t.Helper()
	args = append([]string{"up", p.recipe, "--run", "whole", "--dir", p.dir, "--verbose"}, args...)
	if python, err := filepath.Abs("../../.venv/bin/python"); err == nil && os.Getenv("HEADRACE_PYTHON") == "" {
		args = append(args, "--python", python)
	}
	return p.start(t, exec.Command(p.binary, args...))
}

func (p *program) start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	r := &process{cmd: cmd, out: &bytes.Buffer{}, done: make(chan error, 1)}
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.done <- r.cmd.Wait() }()
	t.Cleanup(func() { r.cmd.Process.Kill() }) //nolint:errcheck // it has ended long ago, if all went well
	return r
}

func (r *process) output() string { return r.out.String() }

func (r *process) wait(limit time.Duration) error {
	select {
	case err := <-r.done:
		return err
	case <-time.After(limit):
		r.cmd.Process.Kill() //nolint:errcheck // the test has failed
		return fmt.Errorf("did not end within %s", limit)
	}
}

// kill ends the process and its children at once, with no chance to react.
func (r *process) kill(t *testing.T) {
	t.Helper()
	pids := append(children(t, r.cmd.Process.Pid), r.cmd.Process.Pid)
	if len(pids) < 3 {
		t.Fatalf("found processes %v: want the program, its trainer and its engine", pids)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	<-r.done
}

func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, f := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, n)
		}
	}
	return pids
}

// waitForStep waits until the trainer has trained a step.
func (p *program) waitForStep(t *testing.T, r *process, step int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		for _, start := range p.deliveries(t) {
			for _, d := range start {
				if d.step >= step {
					return
				}
			}
		}
		select {
		case err := <-r.done:
			t.Fatalf("run ended before step %d: %v\n%s", step, err, r.output())
		case <-deadline:
			t.Fatalf("no step %d within %s\n%s", step, patience, r.output())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// delivery is a batch that the trainer was given.
type delivery struct {
	step   int
	digest string
}

var (
	startLine = regexp.MustCompile(`fresh start|resumed at step`)
	stepLine  = regexp.MustCompile(`step (\d+): .*digest ([0-9a-f]{8})`)
)

// deliveries reads the trainer's log: the batches of each of its starts.
func (p *program) deliveries(t *testing.T) (starts [][]delivery) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(p.dir, "whole", "logs", "trainer.log"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(log), "\n") {
		if startLine.MatchString(line) {
			starts = append(starts, nil)
		}
		if m := stepLine.FindStringSubmatch(line); m != nil && len(starts) > 0 {
			step, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			starts[len(starts)-1] = append(starts[len(starts)-1], delivery{step, m[2]})
		}
	}
	return starts
}

// batches asks the program for every batch in the ledger, by step.
func (p *program) batches(t *testing.T) map[int]string {
	t.Helper()
	found := map[int]string{}
	for step := 1; step <= lastStep; step++ {
		out, err := p.run("show", "whole", "step", strconv.Itoa(step), "--json", "--dir", p.dir)
		if err != nil {
			break
		}
		var f struct {
			Batch json.RawMessage `json:"batch"`
		}
		if err := json.Unmarshal(out, &f); err != nil {
			t.Fatal(err)
		}
		found[step] = string(f.Batch)
	}
	return found
}

func (p *program) show(t *testing.T, v any) {
	t.Helper()
	out, err := p.run("show", "whole", "--json", "--dir", p.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, v); err != nil {
		t.Fatal(err)
	}
}

func (p *program) run(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, p.binary, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("headrace %v: %w", args, err)
	}
	return out, nil
}
