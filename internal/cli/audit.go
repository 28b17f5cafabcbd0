package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/subjects"
)

func newAudit(e *env) *cobra.Command {
	var f sourceFlags
	var o audit.Options
	c := &cobra.Command{
		Use: "audit RUN", Short: "Prove from a run's log that nothing was lost, trained twice or mixed",
		Long: `Prove from a run's log alone, live or stopped, that nothing was lost, trained
twice or mixed: every message and body is read, every decision of the grouper is
made again and compared byte for byte. Exit code 4: something is wrong.`,
		Args:    exactArgs(1, "a run"),
		PreRunE: e.reader,
		RunE: func(c *cobra.Command, args []string) error {
			if err := validRun(args[0]); err != nil {
				return err
			}
			if e.tty {
				o.Progress = e.auditProgress
			}
			r, err := app.Audit(c.Context(), f.source(c, e), subjects.Run(args[0]), o)
			if e.tty {
				fmt.Fprint(e.err, "\r\x1b[K")
			}
			if r == nil {
				return err
			}
			return errors.Join(e.print(r, func(w io.Writer) { auditText(w, r) }), err)
		},
	}
	c.Flags().IntVar(&o.Keep, "show", 0, "discrepancies of each check to print; all are counted (default 10)")
	f.flags(c)
	return c
}

func (e *env) auditProgress(p audit.Progress) {
	share := 100.0
	if p.Total > 0 {
		share = 100 * float64(p.Done) / float64(p.Total)
	}
	mb := float64(p.Bytes) / 1e6
	fmt.Fprintf(e.err, "\r\x1b[Kaudited %.0f %%, %.0f MB at %.0f MB/s", share, mb, mb/p.Elapsed.Seconds())
}

func auditText(w io.Writer, r *audit.Report) {
	state := "it goes on"
	if r.Cut.Ended != "" {
		state = "ended: " + r.Cut.Ended
	}
	fmt.Fprintf(w, "run %s (%s), audited up to ledger entry %d and rollouts message %d\n\n", r.Run, state, r.Cut.Ledger, r.Cut.Rollouts)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "CHECK\tCHECKED\tFOUND\tNOT PROVABLE")
	for _, c := range r.Checks {
		fmt.Fprintf(t, "%s\t%d %s\t%d\t%d\n", c.Name, c.Checked, c.Unit, c.Found, c.Unproven)
	}
	t.Flush() //nolint:errcheck // writing to the terminal
	fmt.Fprintln(w)
	accountText(w, "training", "trained", &r.Training)
	accountText(w, "evaluation", "measured", &r.Evaluation)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	for i := range r.Discrepancies {
		d := &r.Discrepancies[i]
		fmt.Fprintf(w, "%s: %s: %s\n    %s\n", d.Check, d.Kind, d.Text, d.Look)
	}
	fmt.Fprintf(w, "\n%s: %s (%.1f MB in %.1f s)\n", map[bool]string{true: "PASS", false: "FAIL"}[r.OK], r.Verdict, float64(r.Bytes)/1e6, r.Seconds)
}

func accountText(w io.Writer, name, used string, a *audit.Account) {
	var dropped uint64
	var why []string
	for _, k := range slices.Sorted(maps.Keys(a.Dropped)) {
		dropped += a.Dropped[k]
		why = append(why, fmt.Sprintf("%s %d", strings.ReplaceAll(k, "_", " "), a.Dropped[k]))
	}
	reasons := ""
	if len(why) > 0 {
		reasons = " (" + strings.Join(why, ", ") + ")"
	}
	fmt.Fprintf(w, "%s: %d produced = %d %s + %d dropped%s + %d open\n", name, a.Produced, a.Used, used, dropped, reasons, a.Open)
}
