package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

// retrainFlags are those of a replay to a trainer.
type retrainFlags struct{ dir, listen string }

func (r *retrainFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&r.dir, "out", "", "with --to trainer: folder for its checkpoints and weights (default: one that is removed)")
	c.Flags().StringVar(&r.listen, "listen", "", "with --to trainer: where it connects: unix:PATH or tcp:HOST:PORT (default: a socket in that folder)")
}

// runThenTrainer takes a run, and what comes after --.
func runThenTrainer(c *cobra.Command, args []string) error {
	before := c.ArgsLenAtDash()
	if before < 0 {
		before = len(args)
	}
	if before != 1 {
		return usageError{fmt.Errorf("%s takes a run (see `%s --help`)", c.CommandPath(), c.CommandPath())}
	}
	return nil
}

// wholeRuns refuses what a copy of a run cannot follow.
func wholeRuns(c *cobra.Command, to string, until int64) error {
	for _, name := range []string{"step", "group", "producer", "environment", "status", "since", "until", "seq", "speed", "bodies"} {
		if c.Flags().Changed(name) {
			return fmt.Errorf("--%s cannot go with --to %s, which takes whole batches from the start: only --until-step can", name, to)
		}
	}
	if until < 0 {
		return fmt.Errorf("--until-step %d: want a step, from 1", until)
	}
	return nil
}

func (e *env) copyRun(c *cobra.Command, s app.Source, args []string, name string, until int64) error {
	if len(args) > 1 {
		return usageError{errors.New("a trainer after -- is for --to trainer")}
	}
	if err := validRun(name); err != nil {
		return err
	}
	r, err := app.CopyRun(c.Context(), s, subjects.Run(args[0]), subjects.Run(name), subjects.Step(until))
	if err != nil {
		return err
	}
	return e.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "copied %d trajectories, %d tokens, and %d steps of run %s to run %s in %.2f s\ndigest %s\n", r.Trajectories, r.Tokens, r.Step, r.Run, r.To, r.Seconds, r.Sum)
	})
}

func (e *env) retrain(c *cobra.Command, s app.Source, args []string, until int64, f *retrainFlags) error {
	o := app.RetrainOptions{Until: subjects.Step(until), Dir: f.dir, Listen: f.listen, Token: os.Getenv("HEADRACE_FEED_TOKEN"),
		Trainer: app.Companion{Args: args[1:], Output: e.err}}
	if len(o.Trainer.Args) == 0 {
		o.Ready = func(address string) { fmt.Fprintf(e.err, "waiting for a trainer: HEADRACE_FEED=%s\n", address) }
	}
	o.Each = func(m *subjects.CommitEvent) { e.step(m) }
	last, err := app.Retrain(c.Context(), s, subjects.Run(args[0]), o)
	if err == nil && !e.json {
		fmt.Fprintf(e.out, "trained %d steps of run %s again\n", last, args[0])
	}
	return err
}

// step prints what a trainer says of a step.
func (e *env) step(m *subjects.CommitEvent) {
	if e.json {
		json.NewEncoder(e.out).Encode(m) //nolint:errcheck // printing
		return
	}
	fmt.Fprintf(e.out, "step %d: %d tokens", m.Step, m.Tokens)
	for _, k := range slices.Sorted(maps.Keys(m.Metrics)) {
		fmt.Fprintf(e.out, "  %s %v", k, m.Metrics[k])
	}
	fmt.Fprintln(e.out)
}
