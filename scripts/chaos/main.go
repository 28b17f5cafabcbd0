// Command chaos runs Headrace as a fleet of separate processes, breaks one of
// them in a way drawn from a seed, and proves from the logs that nothing was
// lost, duplicated or mixed. `make chaos` runs every fault; docs/reliability.md
// holds its table and says how it is measured.
//
// One idea explains its shape: nobody that takes part is believed. The trainer
// notes every batch on disk before it learns from it; afterwards the harness
// derives every batch again from the log on the bus, and compares.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) == 3 && args[0] == "role" {
		return runRole(ctx, args[1], args[2])
	}
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	if o.table {
		return o.writeTable()
	}
	return newCampaign(o).run(ctx)
}

// roles are what this command does as a child of itself.
var roles = map[string]func(context.Context, job) error{
	"nats":    serveNATS,
	"node":    serveNode,
	"engine":  serveEngine,
	"trainer": train,
}

// job is what a role is told.
type job struct {
	Store       string `json:"store,omitempty"`       // nats
	Credentials string `json:"credentials,omitempty"` // nats: file to write
	Port        int    `json:"port,omitempty"`        // nats, engine
	Name        string `json:"name,omitempty"`        // node of a cluster
	Cluster     []int  `json:"cluster,omitempty"`     // ports of its routes, this node's first
	Password    string `json:"password,omitempty"`    // node
	Feed        string `json:"feed,omitempty"`        // trainer
	Checkpoints string `json:"checkpoints,omitempty"` // trainer
	Log         string `json:"log,omitempty"`         // trainer: what it was given
	StepMS      int    `json:"step_ms,omitempty"`     // trainer: how long a step takes
	LatencyMS   int    `json:"latency_ms,omitempty"`  // engine: how long a call takes
}

func runRole(ctx context.Context, name, text string) error {
	role := roles[name]
	if role == nil {
		return fmt.Errorf("no role %q", name)
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return fmt.Errorf("role %s: %w", name, err)
	}
	if err := role(ctx, j); err != nil {
		return fmt.Errorf("role %s: %w", name, err)
	}
	return nil
}

// options are the command line.
type options struct {
	runs     int
	seed     uint64
	parallel int
	faults   []*fault
	dir      string
	binary   string
	out      string
	docs     string
	resume   bool
	redo     bool
	short    bool
	table    bool
	keep     bool
	steps    int
	limit    time.Duration
	clock    string // folder of binaries with a clock of their own
	python   string
}

const wholeTable = "out/chaos.json"

func parseFlags(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	names := f.String("faults", "", "faults to run, with commas; a name may end in *: all")
	f.IntVar(&o.runs, "n", 20, "runs of each fault")
	f.Uint64Var(&o.seed, "seed", 1, "seed of every draw: steps, victims, pauses")
	f.IntVar(&o.parallel, "parallel", 1, "runs at once; they share the machine, and recovery times suffer")
	f.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "headrace-chaos"), "folder for the runs; those that fail stay there")
	f.StringVar(&o.binary, "binary", "bin/headrace", "the program under test")
	f.StringVar(&o.out, "out", wholeTable, "where the table goes as JSON; each run is a line in .runs.jsonl beside it; of some faults alone out/chaos-part.json")
	f.StringVar(&o.docs, "docs", "", "page to write the table into, between its markers")
	f.BoolVar(&o.resume, "resume", false, "go on with a campaign: runs that have a line already are not run again")
	f.BoolVar(&o.redo, "redo", false, "with --resume: run those that failed again, after a fix")
	f.BoolVar(&o.short, "short", false, "a subset for CI, one run each")
	f.BoolVar(&o.table, "table", false, "only write the table of the runs so far")
	f.BoolVar(&o.keep, "keep", false, "keep the folders of good runs too")
	f.IntVar(&o.steps, "steps", 14, "steps of a run")
	f.DurationVar(&o.limit, "limit", 2*time.Minute, "a run that takes longer is stuck")
	f.StringVar(&o.clock, "clock", "", "folder of headrace and chaos built with a shifted clock (scripts/chaos/build makes them)")
	f.StringVar(&o.python, "python", "", "use the JAX engine and trainer of this Python instead of the harness's own")
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "usage: chaos [flags]\n\nFaults:\n")
		for i := range faults {
			fmt.Fprintf(f.Output(), "  %-28s %s\n", faults[i].name, faults[i].text)
		}
		fmt.Fprintln(f.Output())
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 || o.runs < 1 || o.parallel < 1 || o.steps < 10 {
		return nil, fmt.Errorf("want no arguments, n and parallel above 0, steps of 10 at least")
	}
	if o.short {
		o.runs = 1
	}
	if *names != "" && !o.resume { // some faults are not the table
		o.docs = ""
		if o.out == wholeTable {
			o.out = "out/chaos-part.json"
		}
	}
	return o, o.pick(*names)
}

// pick chooses the faults to run.
func (o *options) pick(names string) error {
	chosen := map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		found := name == ""
		for i := range faults {
			ok := faults[i].name == name
			if prefix, cut := strings.CutSuffix(name, "*"); cut {
				ok = strings.HasPrefix(faults[i].name, prefix)
			}
			if ok {
				chosen[faults[i].name], found = true, true
			}
		}
		if !found {
			return fmt.Errorf("no fault %q; chaos -h lists them", name)
		}
	}
	for i := range faults {
		if chosen[faults[i].name] || names == "" && (!o.short || faults[i].short) {
			o.faults = append(o.faults, &faults[i])
		}
	}
	return nil
}
