package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

func newTail(e *env) *cobra.Command {
	var f sourceFlags
	var choose filterFlags
	c := &cobra.Command{
		Use: "tail RUN", Short: "Watch trajectories of a live run as they come",
		Long: `Watch trajectories of a live run as they come, a line each, until the run
ends or you interrupt it. Only headers are read, nothing is leased or
acknowledged: the run does not notice.`,
		Args:    exactArgs(1, "a run"),
		PreRunE: e.reader,
		RunE: func(c *cobra.Command, args []string) error {
			if err := validRun(args[0]); err != nil {
				return err
			}
			filter, err := choose.filter(time.Now())
			if err != nil {
				return err
			}
			end, err := app.Tail(c.Context(), f.source(c, e), subjects.Run(args[0]), filter, e.each(false))
			if err == nil {
				fmt.Fprintf(e.err, "run %s has ended (%s): nothing more comes; `headrace replay %s` shows what came\n", args[0], end, args[0])
			}
			return err
		},
	}
	choose.flags(c)
	f.flags(c)
	return c
}
