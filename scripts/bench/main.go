// Command bench measures Headrace's performance figures on the machine it runs
// on, beside Redis Streams and raw JetStream on the same work. `make bench`
// runs it through scripts/bench/run; docs/benchmarks.md says what each figure is.
//
// One idea explains its shape: every figure comes from real processes. The
// command starts itself and the Python scripts beside it in roles (server,
// producer, grouper with bridge, trainer), lets them go at once, and reads their
// clocks and CPU times from outside.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/rs/zerolog"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// roles are what this command does as a child of itself.
var roles = map[string]func(context.Context, job, *parent) error{
	"server":        serve,
	"produce":       produce,
	"consume":       consume,
	"prefill":       prefill,
	"group":         groupAlone,
	"limit-produce": limitProduce,
	"limit-consume": limitConsume,
	"core":          groupCore,
	"watch":         watch,
}

func run(args []string) error {
	if len(args) == 3 && args[0] == "role" {
		return runRole(args[1], args[2])
	}
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return o.all(ctx)
}

func runRole(name, text string) error {
	role := roles[name]
	if role == nil {
		return fmt.Errorf("no role %q", name)
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return fmt.Errorf("role %s: %w", name, err)
	}
	p := newParent()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.onGone = cancel
	if err := role(ctx, j, p); err != nil {
		return fmt.Errorf("role %s: %w", name, err)
	}
	return nil
}

// options are the command line.
type options struct {
	rounds  int
	volume  float64 // of the full one
	paced   int     // batches of a paced round, one a second
	live    int     // episodes in flight in a producer process
	ahead   int     // batches that our producers may be ahead of the trainer
	dir     string
	python  string
	scripts string
	out     string
	profile string
	only    map[string]bool // empty: all
}

func parseFlags(args []string) (*options, error) {
	o := &options{only: map[string]bool{}}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 3, "rounds; every line runs once in each")
	f.Float64Var(&o.volume, "volume", 1, "work of a round, as a part of the full one")
	f.IntVar(&o.paced, "paced", 40, "batches of a paced round, one a second")
	f.IntVar(&o.live, "live", 512, "trajectories in flight in each producer process")
	f.IntVar(&o.ahead, "ahead", 128, "batches that the producers of the e2e lines may be ahead of the trainer, as tasks would hold them; Redis's are not held")
	f.StringVar(&o.dir, "dir", "out/bench", "folder for stores, emptied as it goes; its disk is what is measured")
	f.StringVar(&o.python, "python", ".venv/bin/python", "Python with headrace, redis and hiredis")
	f.StringVar(&o.scripts, "scripts", "scripts", "folder of the repository's scripts")
	f.StringVar(&o.out, "out", "out/bench.json", "where the figures go as JSON")
	f.StringVar(&o.profile, "profile", "", "folder for CPU profiles of the Go processes; slows them a little")
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "usage: bench [flags] [names]\n\nNames, all when none is given:\n  %s\n\n", strings.Join(names(), " "))
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if o.rounds < 1 || o.volume <= 0 || o.paced < 1 || o.live < 8 || o.ahead < 8 {
		return nil, fmt.Errorf("rounds, volume and paced must be above 0, live and ahead at least 8")
	}
	for _, name := range f.Args() {
		if !known(name) {
			return nil, fmt.Errorf("no figure %q; there are %s", name, strings.Join(names(), ", "))
		}
		o.only[name] = true
	}
	return o, nil
}

// logger is for the roles: only what should not happen.
func logger() zerolog.Logger {
	return zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr, NoColor: true}).Level(zerolog.WarnLevel)
}
