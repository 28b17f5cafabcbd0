package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

// metricsFlag is of every command that can serve its numbers.
func metricsFlag(c *cobra.Command, addr *string) {
	c.Flags().StringVar(addr, "metrics", os.Getenv("HEADRACE_METRICS"), "`address` to serve Prometheus metrics on, as in 127.0.0.1:9464 (HEADRACE_METRICS; default: none)")
}

func newMetrics(e *env) *cobra.Command {
	var f sourceFlags
	var o app.MetricsOptions
	c := &cobra.Command{
		Use: "metrics RUN", Short: "Serve the numbers of a whole run to Prometheus",
		Long: `Serve the numbers of a whole run to Prometheus, at /metrics, until interrupted:
episodes, groups, staleness, training steps, weight syncs, queues, and what every
role says of itself. It is a tap: the run does not notice.

One process more and the run has one page, whatever it is made of. Who has each
role serve a page of its own (--metrics) wants --no-roles here, or what a role
says is counted twice. docs/metrics.md lists all names.`,
		Example: "  headrace metrics lake --listen 127.0.0.1:9464",
		Args:    exactArgs(1, "a run"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := validRun(args[0]); err != nil {
				return err
			}
			alone, err := c.Flags().GetBool("no-roles")
			if err != nil {
				return err
			}
			o.Roles = !alone
			return app.Metrics(c.Context(), f.source(c, e), subjects.Run(args[0]), o)
		},
	}
	c.Flags().StringVar(&o.Addr, "listen", envOr("HEADRACE_METRICS", "127.0.0.1:9464"), "`address` to listen on (HEADRACE_METRICS)")
	c.Flags().Bool("no-roles", false, "only what follows from the log: the roles serve their own numbers")
	f.flags(c)
	return c
}
