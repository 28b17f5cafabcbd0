//go:build whole

package wholetest

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/natstest"
)

// TestRun_RolesAloneOnAnyServerCompleteIt starts every role as a process of its
// own, as a fleet does, on a server that none of them started.
func TestRun_RolesAloneOnAnyServerCompleteIt(t *testing.T) {
	p := newProgram(t)
	server := natstest.Loopback(t)
	o := server.RemoteOptions()
	t.Setenv("NATS_URL", o.URL)
	t.Setenv("NATS_USER", o.User)
	t.Setenv("NATS_PASSWORD", o.Password)
	dir, err := os.MkdirTemp("", "hr") // socket paths are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // a temporary folder
	path := func(name string) string { return filepath.Join(dir, name) }
	engine := freeAddress(t)

	roles := []*process{p.start(t, exec.Command(p.binary, "group", "--run", "whole", "--wait", "1m"))} // before there is a run
	if _, err := p.run("runs", "create", "whole", "--recipe", p.recipe); err != nil {
		t.Fatal(err)
	}
	feed := "unix:" + path("feed")
	roles = append(roles,
		p.start(t, exec.Command(p.binary, "bridge", "--run", "whole", "--listen", feed, "--weights", path("weights"),
			"--checkpoints", path("checkpoints"), "--demos", path("demos.jsonl"), "--model", path("model"))),
		p.start(t, exec.Command(p.binary, "engine", "--run", "whole", "--engine-url", "http://"+engine)))
	producer := p.start(t, exec.Command(p.binary, "produce", "--run", "whole"))
	waitForFile(t, path("model/config.json"), roles[1])
	waitForFile(t, path("feed"), roles[1])
	_, port, _ := net.SplitHostPort(engine)
	roles = append(roles, p.start(t, exec.Command(python(t), "-m", "headrace.engine", "--model-path", path("model"), "--host", "127.0.0.1", "--port", port, "--slots", "64", "--context", "160")))
	trainer := p.start(t, exec.Command(python(t), "-m", "headrace.trainer", "--feed", feed, "--checkpoints", path("checkpoints")))
	if err := trainer.wait(patience); err != nil {
		for _, r := range roles {
			t.Logf("%v\n%s", r.cmd.Args, r.output())
		}
		t.Fatalf("trainer: %v\n%s", err, trainer.output())
	}
	inference := roles[len(roles)-1]                                          // it is no role: it serves on
	for _, r := range append([]*process{producer}, roles[:len(roles)-1]...) { // every role ends with the run
		if err := r.wait(patience); err != nil {
			t.Errorf("%v: %v\n%s", r.cmd.Args, err, r.output())
		}
	}
	p.checkComplete(t)
	if err := inference.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("the engine ended by itself: %v\n%s", err, inference.output())
	}
	if err := inference.wait(30 * time.Second); err != nil {
		t.Errorf("engine: %v\n%s", err, inference.output())
	}
}

func python(t *testing.T) string {
	t.Helper()
	if given := os.Getenv("HEADRACE_PYTHON"); given != "" {
		return given
	}
	path, err := filepath.Abs("../../.venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it listened
	return l.Addr().String()
}

// eventually waits until ok is true, or a process that it needs has ended.
func eventually(t *testing.T, what string, r *process, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !ok() {
		select {
		case err := <-r.done:
			t.Fatalf("waiting for %s: %v ended: %v\n%s", what, r.cmd.Args, err, r.output())
		case <-deadline:
			t.Fatalf("no %s within %s\n%s", what, patience, r.output())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func waitForFile(t *testing.T, name string, r *process) {
	t.Helper()
	eventually(t, name, r, func() bool { _, err := os.Stat(name); return err == nil })
}

// checkComplete wants the run on the bus to have come to its end.
func (p *program) checkComplete(t *testing.T) {
	t.Helper()
	out, err := p.run("show", "whole", "--url", os.Getenv("NATS_URL"), "--json")
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		End   string `json:"end"`
		Steps int    `json:"steps"`
	}
	if err := json.Unmarshal(out, &s); err != nil || s.End != "complete" || s.Steps != lastStep {
		t.Errorf("%s, %v; want complete after %d steps", out, err, lastStep)
	}
}
