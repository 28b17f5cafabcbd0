package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

func newDeadLetter(e *env) *cobra.Command {
	c := &cobra.Command{
		Use: "deadletter", Short: "Look at what could not be used, give it another try, or make room",
		Args: exactArgs(0, "one of ls, show, requeue, drop"),
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("%s takes one of ls, show, requeue, drop", c.CommandPath())}
		},
	}
	c.AddCommand(newDeadLetterLs(e), newDeadLetterShow(e), newDeadLetterRequeue(e), newDeadLetterDrop(e))
	return c
}

// letterFlags choose letters.
func letterFlags(c *cobra.Command, f *app.LetterFilter) {
	c.Flags().StringVar(&f.Stage, "stage", "", "only of this stage: inspect, produce")
	c.Flags().StringVar(&f.Producer, "producer", "", "only what this producer published")
	c.Flags().StringVar(&f.Reason, "reason", "", "only with this text in the reason")
}

func newDeadLetterLs(e *env) *cobra.Command {
	var f sourceFlags
	var filter app.LetterFilter
	c := &cobra.Command{
		Use: "ls RUN", Short: "List dead letters, oldest first", Args: exactArgs(1, "a run"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := validRun(args[0]); err != nil {
				return err
			}
			letters, err := app.DeadLetters(c.Context(), f.source(c, e), subjects.Run(args[0]), filter)
			if err != nil {
				return err
			}
			return e.print(letters, func(w io.Writer) { letterTable(w, letters) })
		},
	}
	letterFlags(c, &filter)
	c.Flags().BoolVar(&filter.Dropped, "dropped", false, "those whose body was dropped as well")
	f.flags(c)
	return c
}

func letterTable(w io.Writer, letters []app.Letter) {
	if len(letters) == 0 {
		fmt.Fprintln(w, "no dead letters")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NUMBER\tWHEN\tSTAGE\tPRODUCER\tTRAJECTORY\tBYTES\tREASON")
	for i := range letters {
		l := &letters[i]
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%.120s\n", l.Number, l.At.Local().Format("2006-01-02 15:04:05"), l.Stage,
			dash(l.Producer), dash(l.Trajectory), letterBytes(l), l.Reason)
	}
	t.Flush() //nolint:errcheck // writing to the terminal
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func letterBytes(l *app.Letter) string {
	switch {
	case len(l.Requeued) > 0:
		return fmt.Sprintf("%d, requeued", l.Bytes)
	case !l.Dropped.IsZero():
		return "dropped"
	case l.Bytes < l.Original:
		return fmt.Sprintf("%d of %d", l.Bytes, l.Original)
	}
	return strconv.Itoa(l.Bytes)
}

func newDeadLetterShow(e *env) *cobra.Command {
	var f sourceFlags
	var raw string
	c := &cobra.Command{
		Use: "show RUN NUMBER", Short: "Show a dead letter: why, its headers, and its body as far as it decodes",
		Args: exactArgs(2, "a run and a letter's number"),
		RunE: func(c *cobra.Command, args []string) error {
			numbers, err := letterNumbers(args)
			if err != nil {
				return err
			}
			d, err := app.ShowLetter(c.Context(), f.source(c, e), subjects.Run(args[0]), numbers[0])
			if err != nil {
				return err
			}
			if raw != "" {
				if len(d.Raw) == 0 {
					return fmt.Errorf("dead letter %d has no bytes any more", d.Number)
				}
				if err := os.WriteFile(raw, d.Raw, 0o600); err != nil {
					return fmt.Errorf("write the letter's bytes: %w", err)
				}
			}
			return e.print(d, func(w io.Writer) { letterText(w, d) })
		},
	}
	c.Flags().StringVar(&raw, "raw", "", "write the bytes to this `file`")
	f.flags(c)
	return c
}

// letterNumbers reads the arguments RUN NUMBER...
func letterNumbers(args []string) ([]uint64, error) {
	if err := validRun(args[0]); err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, a := range args[1:] {
		n, err := strconv.ParseUint(a, 10, 64)
		if err != nil || n == 0 {
			return nil, usageError{fmt.Errorf("dead letter %q: want a number, as `headrace deadletter ls` has it", a)}
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// chosen wants numbers or --all, and not both.
func chosen(c *cobra.Command, f *app.LetterFilter, args []string, all bool) error {
	if len(args) == 0 || (len(args) == 1) != all {
		return usageError{fmt.Errorf("%s takes a run and the numbers of letters, or --all (see `%s --help`)", c.CommandPath(), c.CommandPath())}
	}
	var err error
	f.Numbers, err = letterNumbers(args)
	return err
}

func newDeadLetterRequeue(e *env) *cobra.Command {
	var f sourceFlags
	var o app.RequeueOptions
	var all bool
	c := &cobra.Command{
		Use: "requeue RUN NUMBER... | --all", Short: "Inspect dead letters again and publish those that pass now",
		Long: `Inspect dead letters again, with this build, and publish those that pass now,
once, under the producer name "requeue". What the grouper will do with each is
said before: of a group that has closed, it counts what comes as late. The
letter stays: it is what rejects the first copy. Needs an admin's credentials.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := chosen(c, &o.LetterFilter, args, all); err != nil {
				return err
			}
			o.Before = func(r app.Requeued) {
				fmt.Fprintf(e.err, "letter %d: %s passes now; %s\n", r.Letter, r.Trajectory, r.Outlook)
			}
			results, err := app.RequeueLetters(c.Context(), f.source(c, e), subjects.Run(args[0]), o)
			if results == nil {
				results = []app.Requeued{}
			}
			if printed := e.print(results, func(w io.Writer) { requeuedText(w, results, o.Check) }); err == nil {
				err = printed
			}
			return adminHint(err)
		},
	}
	letterFlags(c, &o.LetterFilter)
	c.Flags().BoolVar(&all, "all", false, "all letters that the other flags leave")
	c.Flags().BoolVar(&o.Check, "check", false, "only say what would happen")
	f.flags(c)
	return c
}

func requeuedText(w io.Writer, results []app.Requeued, check bool) {
	if len(results) == 0 {
		fmt.Fprintln(w, "no dead letters")
	}
	for _, r := range results {
		switch {
		case r.Fault != "":
			fmt.Fprintf(w, "letter %d: left as it is: %s\n", r.Letter, r.Fault)
		case check:
			fmt.Fprintf(w, "letter %d: would be published as %s\n", r.Letter, r.Trajectory)
		case r.Before:
			fmt.Fprintf(w, "letter %d: published before, as message %d of ROLLOUTS\n", r.Letter, r.Sequence)
		default:
			fmt.Fprintf(w, "letter %d: %s published as message %d of ROLLOUTS\n", r.Letter, r.Trajectory, r.Sequence)
		}
	}
}

func newDeadLetterDrop(e *env) *cobra.Command {
	var f sourceFlags
	var filter app.LetterFilter
	var all bool
	c := &cobra.Command{
		Use: "drop RUN NUMBER... | --all", Short: "Drop the bodies of dead letters to make room",
		Long: `Drop the bodies of dead letters to make room. A stub without the body stays
of each, a few hundred bytes: what was rejected stays rejected, for every grouper,
bridge and audit to come. Needs an admin's credentials.`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := chosen(c, &filter, args, all); err != nil {
				return err
			}
			dropped, err := app.DropLetters(c.Context(), f.source(c, e), subjects.Run(args[0]), filter)
			if dropped == nil {
				dropped = []app.Letter{}
			}
			if printed := e.print(dropped, func(w io.Writer) { droppedText(w, dropped) }); err == nil {
				err = printed
			}
			return adminHint(err)
		},
	}
	letterFlags(c, &filter)
	c.Flags().BoolVar(&all, "all", false, "all letters that the other flags leave")
	f.flags(c)
	return c
}

func droppedText(w io.Writer, dropped []app.Letter) {
	bytes := 0
	for i := range dropped {
		bytes += dropped[i].Bytes
	}
	fmt.Fprintf(w, "dropped the bodies of %d letters, %d bytes\n", len(dropped), bytes)
}

// adminHint says whose credentials are wanted, where some were refused.
func adminHint(err error) error {
	if app.IsPermission(err) {
		return fmt.Errorf("%w (this needs the credentials of an admin)", err)
	}
	return err
}
