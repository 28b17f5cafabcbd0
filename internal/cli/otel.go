package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

func newOtel(e *env) *cobra.Command {
	var f sourceFlags
	var choose filterFlags
	var o app.OtelOptions
	c := &cobra.Command{
		Use: "otel RUN", Short: "Send trajectories to OpenTelemetry as spans",
		Long: `Send trajectories of a run to a collector that understands OTLP over HTTP, as spans
by OpenTelemetry's conventions for generative AI: an episode is an invoke_agent, a
turn a chat and the environment's answer, a reward a gen_ai.evaluation.result.

Without --step, --since, --until or --seq the run is followed from now until it
ends or you interrupt; with one of them that part of it is sent, once. A trace's id
follows from the run and the trajectory's id: what is sent twice is the same spans.
What was said is left out unless --content is given. It is a tap: while the
collector is slow or away this command waits, and the run does not notice.
Headers, as for authentication, come from OTEL_EXPORTER_OTLP_HEADERS.`,
		Example: "  headrace otel lake --endpoint http://127.0.0.1:4318\n  headrace otel lake --step 40..42 --content",
		Args:    exactArgs(1, "a run"),
		PreRunE: e.reader,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := validRun(args[0]); err != nil {
				return err
			}
			if o.Sample <= 0 || o.Sample > 1 {
				return usageError{fmt.Errorf("--sample %v: want a share above 0 and up to 1", o.Sample)}
			}
			if o.Filter, err = choose.filter(time.Now()); err != nil {
				return err
			}
			o.Live = true
			for _, window := range []string{"step", "since", "until", "seq"} {
				o.Live = o.Live && !c.Flags().Changed(window)
			}
			o.Progress = func(r app.OtelReport) {
				e.log.Info().Int("trajectories", r.Trajectories).Int("spans", r.Spans).Uint64("sequence", r.Last).Msg("sent")
			}
			r, err := app.Otel(c.Context(), f.source(c, e), subjects.Run(args[0]), o)
			if err != nil && r.Spans == 0 {
				return err
			}
			return errors.Join(e.print(r, func(w io.Writer) { otelText(w, r) }), err)
		},
	}
	c.Flags().StringVar(&o.Endpoint, "endpoint", envOr("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", envOr("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")), "`URL` of the collector; /v1/traces is added where it has no path (OTEL_EXPORTER_OTLP_ENDPOINT)")
	c.Flags().BoolVar(&o.Content, "content", os.Getenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT") == "true", "send what was said, too: messages, arguments and answers of tools")
	c.Flags().Float64Var(&o.Sample, "sample", 1, "share of trajectories to send, chosen by id")
	c.Flags().DurationVar(&o.Patience, "patience", time.Minute, "how long a collector that does not answer is tried again")
	choose.flags(c)
	f.flags(c)
	return c
}

func otelText(w io.Writer, r app.OtelReport) {
	fmt.Fprintf(w, "sent %d trajectories as %d spans in %d requests, %.1f s\n", r.Trajectories, r.Spans, r.Requests, r.Seconds)
	if r.Rejected > 0 {
		fmt.Fprintf(w, "  the collector refused %d spans\n", r.Rejected)
	}
	if r.Unreadable > 0 {
		fmt.Fprintf(w, "  %d trajectories are not there any more or cannot be read\n", r.Unreadable)
	}
	if r.End != "" {
		fmt.Fprintf(w, "  the run has ended: %s\n", r.End)
	}
}
