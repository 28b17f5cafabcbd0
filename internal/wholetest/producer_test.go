//go:build whole

package wholetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// joinSteps are enough for a second producer to join a run that is live.
const joinSteps = 40

// TestRun_SecondProducerJoinsAndIsKilled joins a live run with a second process,
// wants its trajectories in a batch that the trainer was given, kills it with
// SIGKILL, and wants the run to end with every step trained.
func TestRun_SecondProducerJoinsAndIsKilled(t *testing.T) {
	p := newProgram(t)
	p.lengthen(t, joinSteps)
	run := p.up(t)
	p.waitForStep(t, run, 1)
	second := p.produce(t, "second")
	step := p.waitForProducer(t, run, "second")
	if err := second.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-second.done
	if err := run.wait(patience); err != nil {
		t.Fatalf("run: %v\n%s", err, run.output())
	}
	trained := map[int]bool{}
	for _, start := range p.deliveries(t) {
		for _, d := range start {
			trained[d.step] = true
		}
	}
	if !trained[step] || len(trained) != joinSteps {
		t.Errorf("%d steps trained, want %d, step %d with it", len(trained), joinSteps, step)
	}
	var s struct {
		End   string `json:"end"`
		Steps int    `json:"steps"`
	}
	p.show(t, &s)
	if s.End != "complete" || s.Steps != joinSteps {
		t.Errorf("run ended %q after %d steps, want complete after %d", s.End, s.Steps, joinSteps)
	}
}

// lengthen gives the recipe more steps.
func (p *program) lengthen(t *testing.T, steps int) {
	t.Helper()
	text, err := os.ReadFile(p.recipe)
	if err != nil {
		t.Fatal(err)
	}
	longer := bytes.Replace(text, fmt.Appendf(nil, "steps: %d\n", lastStep), fmt.Appendf(nil, "steps: %d\n", steps), 1)
	if bytes.Equal(longer, text) {
		t.Fatal("the recipe's steps are not where they were")
	}
	p.recipe = filepath.Join(filepath.Dir(p.binary), "long.yaml")
	if err := os.WriteFile(p.recipe, longer, 0o644); err != nil {
		t.Fatal(err)
	}
}

// produce joins the run as the README says.
func (p *program) produce(t *testing.T, name string) *process {
	t.Helper()
	return p.start(t, exec.Command(p.binary, "produce", "--run", "whole", "--name", name,
		"--credentials", filepath.Join(p.dir, "whole", "nats.json")))
}

// waitForProducer waits for a batch that has a trajectory by a producer and
// returns its step.
func (p *program) waitForProducer(t *testing.T, r *process, name string) int {
	t.Helper()
	deadline := time.Now().Add(patience)
	for step := 2; step < joinSteps; {
		if time.Now().After(deadline) {
			t.Fatalf("no batch of step %d within %s\n%s", step, patience, r.output())
		}
		out, err := p.run("show", "whole", "step", strconv.Itoa(step), "--json", "--dir", p.dir)
		if err != nil {
			continue // not cut yet
		}
		if p.playedBy(t, trajectoriesOf(t, out), name) {
			return step
		}
		step++
	}
	t.Fatalf("no batch has a trajectory by %s\n%s", name, r.output())
	return 0
}

// trajectoriesOf are the ids in a batch.
func trajectoriesOf(t *testing.T, step []byte) (ids []string) {
	t.Helper()
	var f struct {
		Batch struct {
			Groups []struct {
				Group   string `json:"group"`
				Members []struct {
					Slot    int `json:"slot"`
					Attempt int `json:"attempt"`
				} `json:"members"`
			} `json:"groups"`
		} `json:"batch"`
	}
	if err := json.Unmarshal(step, &f); err != nil {
		t.Fatal(err)
	}
	for _, g := range f.Batch.Groups {
		for _, m := range g.Members {
			ids = append(ids, fmt.Sprintf("%s/%d/%d", g.Group, m.Slot, m.Attempt))
		}
	}
	return ids
}

// playedBy reports whether one of the first few trajectories is by a producer.
func (p *program) playedBy(t *testing.T, ids []string, name string) bool {
	t.Helper()
	for _, id := range ids[:min(4, len(ids))] {
		out, err := p.run("show", "whole", "trajectory", id, "--json", "--dir", p.dir)
		if err != nil {
			t.Fatal(err)
		}
		var tr struct {
			Producer string `json:"producer"`
		}
		if err := json.Unmarshal(out, &tr); err != nil {
			t.Fatal(err)
		}
		if tr.Producer == name {
			return true
		}
	}
	return false
}
