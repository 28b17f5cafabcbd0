package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

func newRunsRm(e *env) *cobra.Command {
	var f sourceFlags
	var o app.RemoveOptions
	var yes bool
	c := &cobra.Command{
		Use: "rm RUN --yes", Short: "Delete a run for ever: its streams, buckets and record, and its folder",
		Long: `Delete a run for ever. A run in a folder goes with the folder: log, weights,
checkpoints. Of a run on a bus named by --url the folder is left, unless --dir says
where it is. A run that is being played is refused without --force.`,
		Args: exactArgs(1, "a run"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := validRun(args[0]); err != nil {
				return err
			}
			if !yes {
				return usageError{errors.New("a run that is removed is gone, its checkpoints and weights with it: say --yes")}
			}
			o.Folder = c.Flags().Changed("dir")
			removed, err := app.Remove(c.Context(), f.source(c, e), subjects.Run(args[0]), o)
			if err != nil {
				return err
			}
			return e.print(removed, func(w io.Writer) {
				fmt.Fprintf(w, "run %s is gone: %s of log", removed.Run, bytesText(float64(removed.Bytes)))
				if removed.Folder != "" {
					fmt.Fprintf(w, ", folder %s", removed.Folder)
				}
				fmt.Fprintln(w)
			})
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "yes, delete it")
	c.Flags().BoolVar(&o.Force, "force", false, "even though it is being played")
	f.flags(c)
	return c
}

func newRunsSize(e *env) *cobra.Command {
	var f sourceFlags
	c := &cobra.Command{
		Use: "size [RUN]", Short: "Show what runs take, on the bus and on disk, and when ROLLOUTS is full",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s takes a run, or none for all", c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			s := f.source(c, e)
			if len(args) == 0 {
				runs, err := app.Runs(c.Context(), s)
				if err != nil {
					return err
				}
				for _, r := range runs {
					args = append(args, r.Run)
				}
			}
			sizes := []*app.RunSize{}
			for _, name := range args {
				if err := validRun(name); err != nil {
					return err
				}
				size, err := app.Size(c.Context(), s, subjects.Run(name))
				if err != nil {
					return err
				}
				sizes = append(sizes, size)
			}
			return e.print(sizes, func(w io.Writer) { sizesText(w, sizes) })
		},
	}
	f.flags(c)
	return c
}

func sizesText(w io.Writer, sizes []*app.RunSize) {
	if len(sizes) == 0 {
		fmt.Fprintln(w, "no runs")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "RUN\tWHAT\tMESSAGES\tBYTES\tLIMIT\tFULL")
	for _, r := range sizes {
		for _, s := range r.Streams {
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%.0f %%\n", r.Run, s.Stream, s.Messages, bytesText(float64(s.Bytes)), bytesText(float64(s.Limit)), 100*s.Full)
		}
		for _, name := range []string{"store", "weights", "checkpoints", "logs", "all"} {
			if n, ok := r.Folder[name]; ok {
				fmt.Fprintf(t, "%s\tfolder: %s\t\t%s\t\t\n", r.Run, name, bytesText(float64(n)))
			}
		}
	}
	t.Flush() //nolint:errcheck // writing to the terminal
	for _, r := range sizes {
		if r.Purged > 0 {
			fmt.Fprintf(w, "%s: rollouts below %d are purged\n", r.Run, r.Purged)
		}
		if r.FullIn > 0 {
			fmt.Fprintf(w, "%s: rollouts grow by %s a second: full in %s, unless purged\n", r.Run, bytesText(r.Rate), time.Duration(r.FullIn*float64(time.Second)).Round(time.Second))
		}
		if r.Free > 0 {
			fmt.Fprintf(w, "%s: its disk has %s left\n", r.Run, bytesText(float64(r.Free)))
		}
	}
}

// bytesText is a number of bytes for people.
func bytesText(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := slices.IndexFunc(units[1:], func(string) bool { n /= 1024; return n < 1 })
	switch {
	case i < 0:
		return fmt.Sprintf("%.1f %s", n, units[len(units)-1])
	case i == 0:
		return fmt.Sprintf("%.0f B", n*1024)
	}
	return fmt.Sprintf("%.1f %s", n*1024, units[i])
}
