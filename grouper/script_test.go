package grouper

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/headrace/headrace/subjects"
)

var update = flag.Bool("update", false, "accept what the scripts print")

// Scripts are testdata/*.txt: a YAML configuration, a line of dashes, then a
// command a line, and below it, indented, what the core decided. # comments.
//
//	roll GROUP SLOT REWARD [status] [a=ATTEMPT] [v=VERSION] [t=TOKENS] [env=NAME] [r=ROUND]; ...   one message
//	commit|resumed|version|ack N [INCARNATION]      inspected SEQ|all      reject SEQ INDEX|all
//	tick DURATION      crash      view      finish REASON [TEXT]      supply N ...
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, calm := runScript(t, string(want), false)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want) {
				t.Errorf("decides otherwise; -update accepts:\n%s", got)
			}
			_, crashed := runScript(t, got, true)
			if len(calm) != len(crashed) {
				t.Fatalf("%d ledger entries, %d when killed after every command", len(calm), len(crashed))
			}
			for i := range calm {
				if string(calm[i]) != string(crashed[i]) {
					t.Errorf("ledger entry %d differs when killed after every command", i+1)
				}
			}
		})
	}
}

func runScript(t *testing.T, text string, crash bool) (out string, ledger [][]byte) {
	head, body, ok := strings.Cut(text, "\n---\n")
	if !ok {
		t.Fatal("no line of dashes")
	}
	var cfg Config
	if err := yaml.Unmarshal([]byte(head), &cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Inspect == nil {
		cfg.Inspect = new(false)
	}
	supply := Supply{Train: make([]uint64, max(1, len(cfg.Environments)))}
	body = strings.TrimPrefix(body, "\n")
	if line, rest, _ := strings.Cut(body, "\n"); strings.HasPrefix(line, "supply ") {
		for i, f := range strings.Fields(line)[1:] {
			supply.Train[i], _ = strconv.ParseUint(f, 10, 64)
		}
		body = rest
		head += "\n---\n" + line
	} else {
		head += "\n---"
	}
	w := newWorld(t, cfg, supply)
	w.out.WriteString(head + "\n")
	for _, line := range strings.Split(strings.TrimRight(body, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue // earlier output
		}
		w.out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		w.command(line)
		w.decide()
		if crash {
			w.crash()
		}
	}
	return w.out.String(), w.ledger
}

func (w *world) command(line string) {
	f := strings.Fields(line)
	arg := func(i int) int64 {
		if i >= len(f) {
			return 0
		}
		n, _ := strconv.ParseInt(f[i], 10, 64)
		return n
	}
	n, inc, at := arg(1), int(arg(2)), w.now+w.skew
	switch f[0] {
	case "start", "view":
		if f[0] == "view" {
			v := w.core.View(w.now)
			fmt.Fprintf(&w.out, "  open %d, kept %d, held %d, in flight %d, committed %d, next %d; waiting for %s\n", v.Open, v.Kept, v.Held, v.InFlight, v.Committed, v.NextStep, v.Waiting)
		}
	case "commit":
		w.weigh(func(c *Core, seq uint64) {
			c.Commit(seq, at, &subjects.CommitEvent{Step: subjects.Step(n), Incarnation: inc})
		})
	case "resumed":
		w.weigh(func(c *Core, seq uint64) {
			c.Resumed(seq, at, &subjects.ResumedEvent{Step: subjects.Step(n), Incarnation: inc})
		})
	case "version":
		w.weigh(func(c *Core, seq uint64) {
			c.Version(seq, &subjects.VersionEvent{Version: subjects.PolicyVersion(n), Incarnation: inc})
		})
	case "ack":
		w.weigh(func(c *Core, seq uint64) {
			c.Ack(seq, &subjects.AckEvent{Version: subjects.PolicyVersion(n), Incarnation: inc})
		})
	case "inspected":
		if f[1] == "all" {
			n = int64(len(w.rollouts))
		}
		w.inspected(uint64(n))
	case "reject":
		a := subjects.Address{Seq: uint64(n), Index: Whole}
		if f[2] != "all" {
			a.Index = int(arg(2))
		}
		w.reject(a)
	case "tick":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			w.t.Fatal(err)
		}
		w.now += int64(d)
	case "skew":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			w.t.Fatal(err)
		}
		w.skew = int64(d)
	case "finish":
		w.core.Finish(f[1], strings.Join(f[2:], " "))
	case "crash":
		w.crash()
	case "roll":
		var entries []subjects.IndexEntry
		for one := range strings.SplitSeq(strings.ReplaceAll(line, "roll ", ""), ";") {
			entries = append(entries, w.entry(strings.Fields(one)))
		}
		w.publish(entries...)
	default:
		w.t.Fatalf("unknown command %q", line)
	}
}

func (w *world) entry(f []string) subjects.IndexEntry {
	e := subjects.IndexEntry{Kind: subjects.Train, Group: subjects.GroupID(f[0]), Status: subjects.Succeeded, Segments: 1,
		Tokens: 10, Longest: 10, Trainable: 5, Environment: "lake", Length: 100}
	if f[0][0] == 'e' {
		e.Kind = subjects.Eval
	}
	slot, err := strconv.Atoi(f[1])
	e.Slot = subjects.Slot(slot)
	if err == nil {
		e.Reward, err = strconv.ParseFloat(f[2], 64)
	}
	if err != nil {
		w.t.Fatal(f, err)
	}
	for _, o := range f[3:] {
		key, value, ok := strings.Cut(o, "=")
		n, _ := strconv.Atoi(value)
		switch {
		case !ok:
			e.Status = subjects.Status(o)
		case key == "a":
			e.Attempt = subjects.Attempt(n)
		case key == "v":
			e.MinVersion, e.MaxVersion = subjects.PolicyVersion(n), subjects.PolicyVersion(n)
		case key == "t":
			e.Tokens, e.Longest = n, n
		case key == "r":
			e.Round = subjects.Step(n)
		case key == "env":
			e.Environment = value
		}
	}
	return e
}
