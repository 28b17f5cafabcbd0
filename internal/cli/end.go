package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
)

func newRunsEnd(e *env) *cobra.Command {
	var j joinFlags
	c := &cobra.Command{
		Use: "end RUN", Short: "End a run that goes on: every open group is cancelled, every role told", Args: exactArgs(1, "the run's name"),
		Long: `End a run that goes on. Its grouper cancels every open group with a verdict and
takes the tasks back; the trainer gets the batches that were cut, then the end.
A run that is ended cannot be gone on with. It takes an administrator's credentials.`,
		RunE: func(c *cobra.Command, args []string) error {
			j.run = args[0]
			join, err := j.join(e, "runs end")
			if err != nil {
				return err
			}
			reason, err := app.EndRun(c.Context(), join)
			if err != nil {
				return err
			}
			return e.print(map[string]string{"run": args[0], "end": reason}, func(w io.Writer) { fmt.Fprintf(w, "run %s ends: %s\n", args[0], reason) })
		},
	}
	j.busFlags(c)
	return c
}
