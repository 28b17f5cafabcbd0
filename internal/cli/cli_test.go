package cli

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
)

const lake = `name: lake
environment: {name: frozenlake, params: {size: 4}}
dataset: {eval_seeds: {first: 0, count: 8}}
grouper: {group_size: 4, groups_per_batch: 4, evaluation: {every: 10, tasks: 8}}
bridge: {buckets: [160]}
model: {max_context: 160}
trainer: {steps: 10}
`

// place is a folder with a recipe, a Python that passes for a good one, and
// one that does not.
type place struct{ dir, recipe, python, noPython string }

func newPlace(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{dir, filepath.Join(dir, "lake.yaml"), filepath.Join(dir, "python"), filepath.Join(dir, "old-python")}
	p.write(t, p.recipe, lake)
	p.write(t, p.python, "#!/bin/sh\nexit 0\n")
	p.write(t, p.noPython, "#!/bin/sh\necho 'Python 3.9 is too old: 3.11 or newer is needed' >&2\nexit 1\n")
	for _, v := range []string{"HEADRACE_PYTHON", "HEADRACE_DIR", "HEADRACE_RUN", "NATS_URL", "NATS_CREDS", "NATS_CONTEXT", "NATS_USER"} {
		t.Setenv(v, "")
	}
	t.Setenv("XDG_CONFIG_HOME", dir) // no context of the nats CLI
	t.Setenv("HEADRACE_WAIT", "0s")
	return p
}

func (p *place) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// up are the arguments of `headrace up` here, with more.
func (p *place) up(more ...string) []string {
	return append([]string{"up", p.recipe, "--dir", filepath.Join(p.dir, "runs"), "--python", p.python}, more...)
}

func (p *place) changed(t *testing.T, old, new string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "changed.yaml")
	p.write(t, name, strings.Replace(lake, old, new, 1))
	return name
}

// TestMain_AnErrorIsOneLineThatSaysWhatToDo: and its exit code says whose fault it is.
func TestMain_AnErrorIsOneLineThatSaysWhatToDo(t *testing.T) {
	p := newPlace(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	runs := filepath.Join(p.dir, "runs")
	p.write(t, filepath.Join(runs, "taken", "nats", "x"), "")
	p.write(t, filepath.Join(runs, "foreign", "nats", "jetstream"), "junk")
	p.write(t, filepath.Join(runs, "renamed", "checkpoints", "step-1"), "")
	p.write(t, filepath.Join(p.dir, "file"), "")
	locked, err := bus.StartServer(t.Context(), bus.ServerOptions{StoreDir: filepath.Join(runs, "locked", "nats"), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Shutdown()
	nowhere := []string{"--url", "nats://127.0.0.1:1"}
	for _, c := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"unknown command", []string{"frobnicate"}, exitUsage, []string{"frobnicate", "--help"}},
		{"unknown flag", []string{"up", "--frobnicate"}, exitUsage, []string{"frobnicate", "headrace up --help"}},
		{"no recipe", []string{"up"}, exitUsage, []string{"takes a recipe"}},
		{"recipe that is not there", []string{"up", "nowhere"}, exitUsage, []string{"nowhere", "no such file", "recipes/"}},
		{"recipe with an unknown key", []string{"recipe", "check", p.changed(t, "trainer:", "trainr:")}, exitUsage, []string{"changed.yaml:7", "trainr", "allowed"}},
		{"recipe with a wrong type", []string{"up", p.changed(t, "steps: 10", "steps: ten")}, exitUsage, []string{"trainer.steps", "whole number"}},
		{"recipe out of range", []string{"up", p.changed(t, "group_size: 4", "group_size: 1")}, exitUsage, []string{"grouper.group_size", "at least 2"}},
		{"recipe that can deadlock", []string{"up", p.changed(t, "groups_per_batch: 4", "tokens_per_batch: 100, trajectory_tokens: 160")}, exitUsage, []string{"no batch could be cut", "4 x trajectory_tokens 160 = 640"}},
		{"name that is none", p.up("--run", "A B"), exitUsage, []string{`"A B"`, "a-z"}},
		{"no Python", []string{"up", p.recipe, "--python", filepath.Join(p.dir, "none")}, exitFailed, []string{"make venv", "--python"}},
		{"old Python", []string{"up", p.recipe, "--python", p.noPython}, exitFailed, []string{"3.11 or newer", "--python"}},
		{"port in use", p.up("--port", port), exitFailed, []string{"port in use", port, "port 0"}},
		{"port that is none", p.up("--port", "70000"), exitUsage, []string{"70000", "65535"}},
		{"run exists", p.up("--run", "taken"), exitUsage, []string{"run exists", "--resume", "--run"}},
		{"nothing to resume", p.up("--run", "gone", "--resume"), exitUsage, []string{"nothing to resume", "gone"}},
		{"no run of the recipe to resume", p.up("--resume"), exitUsage, []string{"nothing to resume", "lake"}},
		{"store of something else", p.up("--run", "foreign", "--resume"), exitFailed, []string{"store not usable", "foreign", "another"}},
		{"folder of another run", p.up("--run", "renamed", "--resume"), exitUsage, []string{"nothing to resume", "renamed", "copied"}},
		{"run is live", p.up("--run", "locked", "--resume"), exitFailed, []string{"in use by another process", "stop it"}},
		{"runs where there is a file", []string{"up", p.recipe, "--python", p.python, "--dir", filepath.Join(p.dir, "file")}, exitFailed, []string{"not a directory", "--dir"}},
		{"show without a run", []string{"show"}, exitUsage, []string{"takes a run"}},
		{"show of no run", []string{"show", "gone", "--dir", runs}, exitFailed, []string{"no run gone", "headrace runs", "--url"}},
		{"show of no step", []string{"show", "taken", "step", "x", "--dir", runs}, exitUsage, []string{"want a number"}},
		{"show of no kind of thing", []string{"show", "taken", "thing", "x", "--dir", runs}, exitUsage, []string{"step, group or trajectory"}},
		{"show of no trajectory", []string{"show", "taken", "trajectory", "x", "--dir", runs}, exitUsage, []string{"group/slot/attempt"}},
		{"produce without a run", []string{"produce"}, exitUsage, []string{"--run"}},
		{"credentials that are not there", []string{"produce", "--run", "x", "--credentials", "none.json"}, exitFailed, []string{"none.json", "running"}},
		{"NATS credentials that are not there", []string{"produce", "--run", "x", "--creds", "none.creds"}, exitUsage, []string{"none.creds", "--creds"}},
		{"produce without a bus", append([]string{"produce", "--run", "x"}, nowhere...), exitBus, []string{"127.0.0.1:1", "--url"}},
		{"group of a bad recipe", []string{"group", "--run", "x", "--recipe", p.changed(t, "trainer:", "trainr:")}, exitUsage, []string{"changed.yaml:7", "trainr"}},
		{"group without a bus", append([]string{"group", "--run", "x"}, nowhere...), exitBus, []string{"--url"}},
		{"bridge without a bus", append([]string{"bridge", "--run", "x"}, nowhere...), exitBus, []string{"--url"}},
		{"engine without a bus", append([]string{"engine", "--run", "x"}, nowhere...), exitBus, []string{"--url"}},
		{"runs without a bus", append([]string{"runs"}, nowhere...), exitBus, []string{"--url"}},
		{"show without a bus", append([]string{"show", "x"}, nowhere...), exitBus, []string{"--url"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errw bytes.Buffer
			if code := Main(c.args, &out, &errw); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			line := said(errw.String())
			if len(line) != 1 || !strings.HasPrefix(line[0], "headrace: ") {
				t.Fatalf("said %q, want one line", line)
			}
			for _, part := range c.says {
				if !strings.Contains(line[0], part) {
					t.Errorf("%q does not say %q", line[0], part)
				}
			}
		})
	}
	if _, err := os.Stat(filepath.Join(runs, "lake-1")); err == nil {
		t.Error("a run that did not start left its folder behind")
	}
}

// said are the lines for the user; those of the log are JSON.
func said(text string) (lines []string) {
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if !strings.HasPrefix(line, "{") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestMain_PrintsWhatWasAskedFor(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct {
		args []string
		json bool
		says string
	}{
		{[]string{"--help"}, false, "produce"},
		{[]string{"help", "up"}, false, "--resume"},
		{[]string{"recipe"}, false, "check"},
		{[]string{"version"}, false, "schema"},
		{[]string{"version", "--json"}, true, "schema"},
		{[]string{"runs", "--dir", p.dir}, false, "no runs"},
		{[]string{"runs", "--dir", p.dir, "--json"}, true, "[]"},
		{[]string{"recipe", "check", p.recipe}, false, "group_size: 4"},
		{[]string{"completion", "bash"}, false, "complete"},
	} {
		var out, errw bytes.Buffer
		if code := Main(c.args, &out, &errw); code != exitOK {
			t.Errorf("%v: exit code %d: %s", c.args, code, errw.String())
		}
		if !strings.Contains(out.String(), c.says) || c.json && !json.Valid(out.Bytes()) {
			t.Errorf("%v printed %q", c.args, out.String())
		}
	}
}

func TestDemos_WritesOneEpisodeALine(t *testing.T) {
	p := newPlace(t)
	file := filepath.Join(p.dir, "demos.jsonl")
	var out, errw bytes.Buffer
	if code := Main([]string{"demos", p.changed(t, "trainer: {steps: 10}", "demonstrations: {episodes: 3}\ntrainer: {steps: 10, warm_start: {steps: 1}}"), "-o", file}, &out, &errw); code != exitOK {
		t.Fatal(errw.String())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var demo struct {
		IDs  []int    `json:"ids"`
		Mask [][2]int `json:"mask"`
	}
	if len(lines) != 3 || json.Unmarshal([]byte(lines[0]), &demo) != nil || len(demo.IDs) == 0 || len(demo.Mask) == 0 {
		t.Fatalf("%d lines, the first %+v", len(lines), demo)
	}
}
