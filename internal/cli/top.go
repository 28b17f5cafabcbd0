package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

func newTop(e *env) *cobra.Command {
	var f sourceFlags
	var o app.TopOptions
	c := &cobra.Command{
		Use:   "top RUN",
		Short: "Show a run live in the terminal: what each part does, and what limits it",
		Long: `Shows a run live, redrawn every second until it ends: how far it is, where the
trainer's time goes, engines, producers, queues, groups, and the watchdog's and
the adviser's sentences. q or Ctrl-C ends it. Where the output is no terminal it
is a line every ten seconds; a run that nobody plays is shown as it was left.
Looking changes nothing in the run.`,
		Args:    exactArgs(1, "the run"),
		PreRunE: e.reader,
		RunE: func(c *cobra.Command, args []string) error {
			if err := validRun(args[0]); err != nil {
				return err
			}
			if o.Every < 0 || o.Every > 0 && o.Every < 100*time.Millisecond {
				return usageError{fmt.Errorf("--every %s: want at least 100ms", o.Every)}
			}
			o.Out, o.JSON, o.Plain = e.out, e.json, os.Getenv("NO_COLOR") != ""
			return app.Top(c.Context(), f.source(c, e), subjects.Run(args[0]), o)
		},
	}
	f.flags(c)
	c.Flags().DurationVar(&o.Every, "every", 0, "how often there is something new (default 1s on a terminal, else 10s)")
	c.Flags().BoolVar(&o.Once, "once", false, "show the run as it is, once")
	return c
}
