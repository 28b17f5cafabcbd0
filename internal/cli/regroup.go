package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/regroup"
	"github.com/headrace/headrace/subjects"
)

func newRegroup(e *env) *cobra.Command {
	var f sourceFlags
	var policy, to string
	var keep int
	c := &cobra.Command{
		Use: "regroup RUN", Short: "Group recorded rollouts under another policy, and say what differs",
		Long: `Group the recorded rollouts of a run under another policy, and say what would
have been different: groups kept and dropped, batches, staleness, waiting. The run
does not change. Under its own policy it must give the run's ledger byte for byte;
exit code 4: it does not.

A trajectory comes when it came, or when the policy asks for it if that is later;
the trainer applies a step when it did, or when its batch is there. Rollouts that
were never played are not made up: the report counts the groups they are missing in.`,
		Example: "  echo 'zero_variance: keep' > p.yaml && headrace regroup lake --policy p.yaml",
		Args:    exactArgs(1, "a run"),
		PreRunE: e.reader,
		RunE: func(c *cobra.Command, args []string) error {
			if err := validRun(args[0]); err != nil {
				return err
			}
			kind, name, _ := strings.Cut(to, ":")
			if to != "" && (kind != "run" || subjects.Run(name).Validate() != nil) {
				return usageError{fmt.Errorf("--to %q: want run:NAME, with a name of a-z, 0-9 and -", to)}
			}
			r, err := app.Regroup(c.Context(), f.source(c, e), subjects.Run(args[0]), subjects.Run(name), policy, keep)
			if err != nil {
				return err
			}
			if err := e.print(r, func(w io.Writer) { regroupText(w, r) }); err != nil {
				return err
			}
			if r.Own && r.Same < r.Entries {
				return fmt.Errorf("regroup %s: %w: %d of %d entries do not follow from the log (`headrace audit %s` says which)", r.Run, app.ErrDiscrepancies, r.Entries-r.Same, r.Entries, r.Run)
			}
			return nil
		},
	}
	c.Flags().StringVar(&policy, "policy", "", "file with fields of the recipe's section grouper to change (default: the run's own policy)")
	c.Flags().StringVar(&to, "to", "", "run:NAME: make a new run of the rollouts and the new ledger, to train from")
	c.Flags().IntVar(&keep, "show", 0, "groups with another fate to list; all are counted (default 20)")
	f.flags(c)
	return c
}

func regroupText(w io.Writer, r *regroup.Report) {
	fmt.Fprintf(w, "run %s: %d of %d ledger entries come out byte for byte\n", r.Run, r.Same, r.Entries)
	if !r.Sound {
		fmt.Fprintf(w, "note: the recording itself is not sound: %s\n", r.Verdict)
	}
	fmt.Fprintln(w)
	accounts(w, "RECORDED", "REGROUPED", &r.Recorded, &r.Regrouped)
	fmt.Fprintln(w)
	switch {
	case r.FirstStep > 0:
		fmt.Fprintf(w, "batches differ from step %d on (the first is the recorded one): %s\n", r.FirstStep, r.Why)
	default:
		fmt.Fprintln(w, "all batches are the same")
	}
	if r.Changed > 0 {
		fmt.Fprintf(w, "%d groups have another fate:\n", r.Changed)
		for _, c := range r.Changes {
			fmt.Fprintf(w, "  %s: %s, now %s\n", c.Group, c.Recorded, c.Now)
		}
		if more := r.Changed - len(r.Changes); more > 0 {
			fmt.Fprintf(w, "  and %d more (--show %d)\n", more, r.Changed)
		}
	}
	if r.Unasked > 0 {
		fmt.Fprintf(w, "%d recorded trajectories are never asked for\n", r.Unasked)
	}
	if r.Open > 0 {
		fmt.Fprintf(w, "%d groups stay open: nothing that was recorded closes them\n", r.Open)
	}
}

// accounts prints two ledgers side by side.
func accounts(w io.Writer, first, second string, a, b *regroup.Account) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "\t%s\t%s\n", first, second)
	row := func(name, format string, x, y any) {
		fmt.Fprintf(t, "%s\t"+format+"\t"+format+"\n", name, x, y)
	}
	row("steps", "%d", a.Steps, b.Steps)
	outcomes := maps.Clone(a.Groups)
	maps.Copy(outcomes, b.Groups)
	for _, o := range slices.Sorted(maps.Keys(outcomes)) {
		row("groups "+strings.ReplaceAll(string(o), "_", " "), "%d", a.Groups[o], b.Groups[o])
	}
	row("groups trained", "%d", a.Trained, b.Trained)
	row("trajectories trained", "%d", a.Trajectories, b.Trajectories)
	row("tokens", "%d", a.Tokens, b.Tokens)
	row("reward, mean", "%.3f", a.RewardMean, b.RewardMean)
	row("staleness, mean", "%.2f", a.StalenessMean, b.StalenessMean)
	row("staleness, max", "%d", a.StalenessMax, b.StalenessMax)
	row("trainer waited, s", "%.1f", a.WaitSeconds, b.WaitSeconds)
	row("digest of batches", "%.19s", a.Digest, b.Digest)
	t.Flush() //nolint:errcheck // writing to the terminal
}

func newDiff(e *env) *cobra.Command {
	var f sourceFlags
	c := &cobra.Command{
		Use: "diff RUN_A RUN_B", Short: "Find the first step whose batches differ between two runs, and why",
		Long: `Find the first step whose batches differ between two runs, and why: another group
or trajectory, other advantages, other tokens. Exit code 4: they differ.`,
		Args:    exactArgs(2, "two runs"),
		PreRunE: e.reader,
		RunE: func(c *cobra.Command, args []string) error {
			for _, a := range args {
				if err := validRun(a); err != nil {
					return err
				}
			}
			d, err := app.Diff(c.Context(), f.source(c, e), subjects.Run(args[0]), subjects.Run(args[1]))
			if err != nil {
				return err
			}
			if err := e.print(d, func(w io.Writer) { diffText(w, d) }); err != nil || d.Same {
				return err
			}
			return fmt.Errorf("%w: the batches of %s and %s differ from step %d on", app.ErrDiffer, d.Runs[0], d.Runs[1], d.FirstStep)
		},
	}
	f.flags(c)
	return c
}

func diffText(w io.Writer, d *regroup.Difference) {
	accounts(w, string(d.Runs[0]), string(d.Runs[1]), &d.Ledgers[0], &d.Ledgers[1])
	if d.Same {
		fmt.Fprintf(w, "\nall batches are the same, token by token\n")
		return
	}
	fmt.Fprintf(w, "\nstep %d: %s\n", d.FirstStep, d.Why)
}
