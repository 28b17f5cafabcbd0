package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

// exportFlags are what is chosen of a run, and how it is written.
type exportFlags struct {
	format, path                                    string
	steps, groups, producers, envs, kinds, statuses []string
	margin                                          float64
}

func (x *exportFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&x.format, "format", "jsonl", "jsonl (all there is), parquet (a Hugging Face dataset), atif, openai (messages) or preference (pairs)")
	f.StringVarP(&x.path, "output", "o", "", "file, or for parquet folder; .zst is compressed, - is standard output (default: named after the run)")
	f.StringSliceVar(&x.steps, "step", nil, "only what these steps trained on or evaluated: `N or N..M`")
	f.StringSliceVar(&x.groups, "group", nil, "only these groups")
	f.StringSliceVar(&x.producers, "producer", nil, "only what these producers played")
	f.StringSliceVar(&x.envs, "environment", nil, "only of these environments")
	f.StringSliceVar(&x.kinds, "kind", nil, "only of these kinds: train, eval")
	f.StringSliceVar(&x.statuses, "status", nil, "only those that ended so: succeeded, truncated, overlong, failed, aborted")
	f.Float64Var(&x.margin, "margin", 0, "least difference of rewards in a preference pair (default: any)")
}

func (x *exportFlags) options() (o app.ExportOptions, err error) {
	o = app.ExportOptions{Format: app.ExportFormat(x.format), Path: x.path, Margin: x.margin}
	if !slices.Contains(app.ExportFormats(), o.Format) {
		return o, usageError{fmt.Errorf("--format %q: want one of %s", x.format, strings.Trim(fmt.Sprint(app.ExportFormats()), "[]"))}
	}
	for _, s := range x.steps {
		steps, err := parseSteps(s)
		if err != nil {
			return o, err
		}
		o.Filter.Steps = append(o.Filter.Steps, steps)
	}
	for _, g := range x.groups {
		o.Filter.Groups = append(o.Filter.Groups, subjects.GroupID(g))
	}
	o.Filter.Producers, o.Filter.Environments = x.producers, x.envs
	for _, k := range x.kinds {
		if !subjects.Kind(k).Valid() {
			return o, usageError{fmt.Errorf("--kind %q: want train or eval", k)}
		}
		o.Filter.Kinds = append(o.Filter.Kinds, subjects.Kind(k))
	}
	for _, s := range x.statuses {
		if !subjects.Status(s).Valid() {
			return o, usageError{fmt.Errorf("--status %q: want succeeded, truncated, overlong, failed or aborted", s)}
		}
		o.Filter.Statuses = append(o.Filter.Statuses, subjects.Status(s))
	}
	return o, nil
}

// parseSteps reads N or N..M.
func parseSteps(s string) (app.ExportSteps, error) {
	first, last, ranged := strings.Cut(s, "..")
	if !ranged {
		last = first
	}
	a, errA := strconv.ParseInt(first, 10, 64)
	b, errB := strconv.ParseInt(last, 10, 64)
	if errA != nil || errB != nil || a < 1 || b < a {
		return app.ExportSteps{}, usageError{fmt.Errorf("--step %q: want N or N..M, from 1", s)}
	}
	return app.ExportSteps{First: subjects.Step(a), Last: subjects.Step(b)}, nil
}

func newExport(e *env) *cobra.Command {
	var f sourceFlags
	var x exportFlags
	c := &cobra.Command{
		Use: "export RUN", Short: "Write a run's trajectories for other programs: JSONL, Parquet, ATIF, messages, preference pairs",
		Long: `Write a run's trajectories, live or stopped, for other programs, in the order of
its log. The same log gives the same bytes; their digest is printed. The form
jsonl has all there is and comes back by "headrace import".`,
		Args:    exactArgs(1, "a run"),
		PreRunE: e.reader,
		RunE: func(c *cobra.Command, args []string) error {
			if err := validRun(args[0]); err != nil {
				return err
			}
			o, err := x.options()
			if err != nil {
				return err
			}
			o.Stdout = e.out
			r, err := app.Export(c.Context(), f.source(c, e), subjects.Run(args[0]), o)
			if err != nil {
				return err
			}
			text := func(w io.Writer) { exportText(w, r) }
			if r.Path == "-" {
				text(e.err) // the result is what was exported
				return nil
			}
			return e.print(r, text)
		},
	}
	x.flags(c)
	f.flags(c)
	return c
}

func exportText(w io.Writer, r *app.Exported) {
	fmt.Fprintf(w, "%d trajectories of run %s, %d rows, %.1f MB, to %s", r.Trajectories, r.Run, r.Rows, float64(r.Bytes)/1e6, r.Path)
	if r.Filtered > 0 {
		fmt.Fprintf(w, "; %d were not asked for", r.Filtered)
	}
	if r.Unreadable > 0 {
		fmt.Fprintf(w, "; %d cannot be read (`headrace deadletter ls %s`)", r.Unreadable, r.Run)
	}
	fmt.Fprintf(w, "\nsha256 %s\n", r.Digest)
}

func newImport(e *env) *cobra.Command {
	var f sourceFlags
	var run string
	c := &cobra.Command{
		Use: "import FILE --run NAME", Short: "Make a run of an export, to show, export or regroup",
		Long: `Make a run of a file that "headrace export" wrote as jsonl or atif, or of ATIF
trajectories from elsewhere: in a folder of its own, or on the bus that is named.
It has ended: nobody plays it. Its ledger says what the file says of verdicts,
batches and advantages.`,
		Args: exactArgs(1, "a file"),
		RunE: func(c *cobra.Command, args []string) error {
			if run == "" {
				return usageError{fmt.Errorf("under which name? give it with --run")}
			}
			if err := validRun(run); err != nil {
				return err
			}
			r, err := app.Import(c.Context(), f.source(c, e), args[0], subjects.Run(run))
			if err != nil {
				return err
			}
			return e.print(r, func(w io.Writer) {
				fmt.Fprintf(w, "run %s has the %d trajectories of %s, in %s\n", r.Run, r.Trajectories, r.File, r.Where)
			})
		},
	}
	c.Flags().StringVar(&run, "run", "", "`name` of the new run")
	f.flags(c)
	return c
}
