package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

// sourceFlags say where runs are looked at.
type sourceFlags struct {
	joinFlags
	root string
}

func (s *sourceFlags) flags(c *cobra.Command) {
	s.busFlags(c)
	c.Flags().StringVar(&s.root, "dir", envOr("HEADRACE_DIR", app.DefaultRoot), "folder that run folders are in, where neither a flag nor NATS_URL names a bus")
}

func (s *sourceFlags) source(c *cobra.Command, e *env) app.Source {
	remote := os.Getenv("NATS_URL") != "" && !c.Flags().Changed("dir")
	for _, name := range []string{"url", "creds", "context", "credentials"} {
		remote = remote || c.Flags().Changed(name)
	}
	return app.Source{Bus: s.bus, Root: s.root, Remote: remote, Log: e.log}
}

func newRuns(e *env) *cobra.Command {
	var f sourceFlags
	c := &cobra.Command{
		Use: "runs", Short: "List the runs in this folder, or on a bus", Args: exactArgs(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			runs, err := app.Runs(c.Context(), f.source(c, e))
			if err != nil {
				return err
			}
			if runs == nil {
				runs = []app.RunInfo{}
			}
			return e.print(runs, func(w io.Writer) { runTable(w, runs) })
		},
	}
	f.flags(c)
	c.AddCommand(newRunsCreate(e), newRunsEnd(e), newRunsRm(e), newRunsSize(e))
	return c
}

func runTable(w io.Writer, runs []app.RunInfo) {
	if len(runs) == 0 {
		fmt.Fprintln(w, "no runs")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "RUN\tSTATE\tCHANGED\tWHERE")
	for _, r := range runs {
		state := "stopped"
		if r.Live {
			state = "live"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Run, state, r.Created.Local().Format("2006-01-02 15:04"), r.Where)
	}
	t.Flush() //nolint:errcheck // writing to the terminal
}

func newShow(e *env) *cobra.Command {
	var f sourceFlags
	c := &cobra.Command{
		Use:   "show RUN [step N | group ID | trajectory ID]",
		Short: "Show a run, the batch of a step, a group or a trajectory",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 && len(args) != 3 {
				return usageError{fmt.Errorf("%s takes a run, or a run and one of: step N, group ID, trajectory GROUP/SLOT/ATTEMPT", c.CommandPath())}
			}
			return nil
		},
		PreRunE: e.reader,
		RunE: func(c *cobra.Command, args []string) error {
			s, run := f.source(c, e), subjects.Run(args[0])
			if err := validRun(args[0]); err != nil {
				return err
			}
			if len(args) == 1 {
				sum, err := app.ShowRun(c.Context(), s, run)
				if err != nil {
					return err
				}
				return e.print(sum, func(w io.Writer) { sum.WriteText(w) })
			}
			return e.showThing(c, s, run, args[1], args[2])
		},
	}
	f.flags(c)
	return c
}

func (e *env) showThing(c *cobra.Command, s app.Source, run subjects.Run, kind, id string) error {
	switch kind {
	case "step":
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return usageError{fmt.Errorf("step %q: want a number", id)}
		}
		f, err := app.ShowStep(c.Context(), s, run, subjects.Step(n))
		if err != nil {
			return err
		}
		return e.print(f, func(w io.Writer) { stepText(w, f) })
	case "group":
		f, err := app.ShowGroup(c.Context(), s, run, subjects.GroupID(id))
		if err != nil {
			return err
		}
		return e.print(f, func(w io.Writer) { groupText(w, f) })
	case "trajectory":
		if !trajectoryID.MatchString(id) {
			return usageError{fmt.Errorf("trajectory %q: want group/slot/attempt, as in t17/3/0", id)}
		}
		t, err := app.ShowTrajectory(c.Context(), s, run, id)
		if err != nil {
			return err
		}
		return e.print(app.ViewTrajectory(t), func(w io.Writer) { app.WriteTrajectory(w, t, e.verbose) })
	}
	return usageError{fmt.Errorf("show %q: want step, group or trajectory", kind)}
}

var trajectoryID = regexp.MustCompile(`^[^/]+/\d+/\d+$`)

func stepText(w io.Writer, f *app.Found) {
	b := f.Batch
	fmt.Fprintf(w, "step %d: %d groups, %d rows, %d tokens, longest %d; reward %.3f; staleness %.2f mean, %d max; ledger entry %d\n",
		b.Step, len(b.Groups), b.Rows, b.Tokens, b.Longest, b.RewardMean, b.StalenessMean, b.StalenessMax, f.LedgerSeq)
	if c := f.Commit; c != nil {
		fmt.Fprintf(w, "trained in %.2f s after waiting %.2f s (trainer start %d)\n", c.TrainSeconds, c.WaitSeconds, c.Incarnation)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GROUP\tSLOT\tREWARD\tADVANTAGE\tTOKENS\tVERSIONS\tSTATUS\tADDRESS")
	for _, g := range b.Groups {
		memberRows(t, string(g.Group), g.Members)
	}
	t.Flush() //nolint:errcheck // writing to the terminal
}

func memberRows(w io.Writer, group string, members []subjects.Member) {
	for _, m := range members {
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%+.3f\t%d\t%d-%d\t%s\t%d.%d\n", group, m.Slot, m.Reward, m.Advantage, m.Tokens,
			m.MinVersion, m.MaxVersion, m.Status, m.Seq, m.Index)
	}
}

func groupText(w io.Writer, f *app.Found) {
	v := f.Verdict
	fmt.Fprintf(w, "group %s: %s after %s, %d members, %d more arrived unused; ledger entry %d\n", v.Group, strings.ReplaceAll(string(v.Outcome), "_", " "),
		time.Duration(v.Closed-v.Opened).Round(time.Millisecond), len(v.Members), v.Unused, f.LedgerSeq)
	if f.Step > 0 {
		fmt.Fprintf(w, "trained in step %d\n", f.Step)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GROUP\tSLOT\tREWARD\tADVANTAGE\tTOKENS\tVERSIONS\tSTATUS\tADDRESS")
	memberRows(t, string(v.Group), v.Members)
	t.Flush() //nolint:errcheck // writing to the terminal
}
