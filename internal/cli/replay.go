package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

// filterFlags choose trajectories of a run.
type filterFlags struct {
	step, since, until, seq                  string
	groups, producers, environments, outcome []string
}

func (f *filterFlags) flags(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.step, "step", "", "only what these steps trained on: N or N..M")
	fl.StringSliceVar(&f.groups, "group", nil, "only these groups")
	fl.StringSliceVar(&f.producers, "producer", nil, "only these producers")
	fl.StringSliceVar(&f.environments, "environment", nil, "only these environments")
	fl.StringSliceVar(&f.outcome, "status", nil, "only these: succeeded, truncated, overlong, failed, aborted")
	fl.StringVar(&f.since, "since", "", "only what was stored since: 2006-01-02T15:04:05Z, or 10m for so long ago")
	fl.StringVar(&f.until, "until", "", "only what was stored before: like --since")
	fl.StringVar(&f.seq, "seq", "", "only these sequences of ROLLOUTS: N, N.. or N..M")
}

func (f *filterFlags) filter(now time.Time) (o app.ReplayFilter, err error) {
	from, to, err := span("step", f.step)
	o.Steps = app.ReplaySteps{From: subjects.Step(from), To: subjects.Step(to)} //nolint:gosec // Validate looks
	if err == nil && f.step != "" && (from == 0 || to == 0) {
		err = fmt.Errorf("--step %q: want N or N..M, from 1", f.step)
	}
	var errs [3]error
	o.First, o.Last, errs[0] = span("seq", f.seq)
	o.Since, errs[1] = moment("since", f.since, now)
	o.Until, errs[2] = moment("until", f.until, now)
	for _, g := range f.groups {
		o.Groups = append(o.Groups, subjects.GroupID(g))
	}
	for _, s := range f.outcome {
		o.Statuses = append(o.Statuses, subjects.Status(s))
	}
	o.Producers, o.Environments = f.producers, f.environments
	if err = errors.Join(append(errs[:], err)...); err == nil {
		err = o.Validate()
	}
	if err != nil {
		err = usageError{err}
	}
	return o, err
}

// span reads N, N.. or N..M.
func span(flag, s string) (from, to uint64, err error) {
	if s == "" {
		return 0, 0, nil
	}
	first, last, ranged := strings.Cut(s, "..")
	if from, err = strconv.ParseUint(first, 10, 63); err == nil && ranged && last != "" {
		to, err = strconv.ParseUint(last, 10, 63)
	} else if !ranged {
		to = from
	}
	if err != nil {
		err = fmt.Errorf("--%s %q: want a number, or two as in 3..5", flag, s)
	}
	return from, to, err
}

// moment reads a time, or how long ago it was.
func moment(flag, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(s); err == nil {
		return now.Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		err = fmt.Errorf("--%s %q: want a time such as 2006-01-02T15:04:05Z, or how long ago, such as 10m", flag, s)
	}
	return t, err
}

func newReplay(e *env) *cobra.Command {
	var f sourceFlags
	var choose filterFlags
	var to, speed string
	var until int64
	var bodies bool
	var again retrainFlags
	c := &cobra.Command{
		Use: "replay RUN [-- TRAINER ARGS...]", Short: "Read recorded trajectories again: to the terminal, a file, a new run or a trainer",
		Long: `Read recorded trajectories of a run again, in the order of its log, and print a
digest of them: what is replayed twice has the same one, and so has a copy of it.
The run does not change.

To run:NAME and to trainer go whole runs, or with --until-step the start of one:
all rollouts and the ledger, so that a fresh trainer gets the same batches. The
trainer named after -- is started; it finds the feed in HEADRACE_FEED. Without one,
the feed waits where --listen says.`,
		Example: "  headrace replay lake --step 12 --bodies\n  headrace replay lake --to trainer --until-step 12 -- python -m headrace.trainer --exit-with-parent",
		Args:    runThenTrainer,
		PreRunE: func(c *cobra.Command, args []string) error {
			if to == "trainer" {
				return nil // it is played again here
			}
			return e.reader(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := validRun(args[0]); err != nil {
				return err
			}
			if kind, name, _ := strings.Cut(to, ":"); kind == "run" || to == "trainer" {
				if err := wholeRuns(c, to, until); err != nil {
					return usageError{err}
				}
				if kind == "run" {
					return e.copyRun(c, f.source(c, e), args, name, until)
				}
				return e.retrain(c, f.source(c, e), args, until, &again)
			}
			o, err := replayOptions(to, speed, until)
			if err != nil {
				return usageError{err}
			}
			if len(args) > 1 {
				return usageError{errors.New("a trainer after -- is for --to trainer")}
			}
			if o.Filter, err = choose.filter(time.Now()); err != nil {
				return err
			}
			if o.File == "" {
				o.Each = e.each(bodies)
			}
			r, err := app.Replay(c.Context(), f.source(c, e), subjects.Run(args[0]), *o)
			if err != nil {
				return err
			}
			return e.replaySum(r)
		},
	}
	c.Flags().StringVar(&to, "to", "terminal", "where to: terminal, file:PATH (a line of JSON each), run:NAME (a copy), or trainer")
	c.Flags().StringVar(&speed, "speed", "max", "how fast: original, 10x (any factor), or max")
	c.Flags().Int64Var(&until, "until-step", 0, "stop with what had come when this step's batch was cut")
	c.Flags().BoolVar(&bodies, "bodies", false, "print conversations, not a line each")
	again.flags(c)
	choose.flags(c)
	f.flags(c)
	return c
}

func replayOptions(to, speed string, until int64) (*app.ReplayOptions, error) {
	o := &app.ReplayOptions{UntilStep: subjects.Step(until)}
	if until < 0 {
		return nil, fmt.Errorf("--until-step %d: want a step, from 1", until)
	}
	kind, path, _ := strings.Cut(to, ":")
	switch {
	case kind == "terminal" && path == "":
	case kind == "file" && path != "":
		o.File = path
	default:
		return nil, fmt.Errorf("--to %q: want terminal, file:PATH, run:NAME or trainer", to)
	}
	switch factor, err := strconv.ParseFloat(strings.TrimSuffix(speed, "x"), 64); {
	case speed == "max":
	case speed == "original":
		o.Speed = 1
	case err == nil && strings.HasSuffix(speed, "x") && factor > 0 && factor <= 1e9:
		o.Speed = factor
	default:
		return nil, fmt.Errorf("--speed %q: want original, a factor such as 10x, or max", speed)
	}
	return o, nil
}

// each prints trajectories as they come: with --json a line of JSON each.
func (e *env) each(bodies bool) func(*app.Replayed) error {
	enc := json.NewEncoder(e.out)
	return func(r *app.Replayed) error {
		switch {
		case e.json:
			return enc.Encode(r)
		case bodies && r.Decoded != nil:
			app.WriteTrajectory(e.out, r.Decoded, e.verbose)
			fmt.Fprintln(e.out)
			return nil
		}
		_, err := fmt.Fprintln(e.out, replayLine(r))
		return err
	}
}

func replayLine(r *app.Replayed) string {
	s := fmt.Sprintf("%s  %6d.%-3d %-12s %-10s %-9s %6.3f %6d tokens  versions %d-%d  %s", r.Time.Local().Format("2006-01-02 15:04:05.000"), r.Seq, r.Index,
		r.ID, r.Environment, r.Status, float64(r.Reward), r.Tokens, r.MinVersion, r.MaxVersion, r.Producer)
	if r.Step > 0 {
		s += fmt.Sprintf("  step %d", r.Step)
	}
	if r.Error != "" {
		s += "  (" + r.Error + ")"
	}
	return s
}

func (e *env) replaySum(r *app.ReplayReport) error {
	if e.json {
		return json.NewEncoder(e.out).Encode(r)
	}
	where := ""
	if r.File != "" {
		where = " to " + r.File
	}
	if r.Unreadable > 0 {
		where += fmt.Sprintf(", %d of them unreadable (`headrace audit %s` says why)", r.Unreadable, r.Run)
	}
	_, err := fmt.Fprintf(e.out, "replayed %d trajectories, %d tokens, %.1f MB%s in %.2f s\ndigest %s\n", r.Trajectories, r.Tokens, float64(r.Bytes)/1e6, where, r.Seconds, r.Sum)
	return err
}
