package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/subjects"
)

func newTrace(e *env) *cobra.Command {
	var f sourceFlags
	var o app.TraceOptions
	var steps, path string
	c := &cobra.Command{
		Use: "trace RUN", Short: "Write a window of a run as a trace that Perfetto opens",
		Long: `Write what every process of a run did in a window, live or ended, as a Perfetto
trace: episodes with their turns, groups, batches, the trainer's waits and steps,
weight syncs, gauges, and for each trajectory the way to the step that trained on
it. Open the file at ui.perfetto.dev (it stays on your machine).`,
		Args:    exactArgs(1, "a run"),
		PreRunE: e.reader,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := validRun(args[0]); err != nil {
				return err
			}
			if o.First, o.Final, err = stepRange(steps); err != nil {
				return err
			}
			if steps != "" && c.Flags().Changed("last") {
				return usageError{fmt.Errorf("--last and --step: want one of them")}
			}
			if o.Last <= 0 {
				return usageError{fmt.Errorf("--last %s: want a time above 0, as in 60s", o.Last)}
			}
			if path == "" {
				path = args[0] + ".pftrace"
			}
			if e.tty {
				o.Progress = e.traceProgress
			}
			r, err := app.Trace(c.Context(), f.source(c, e), subjects.Run(args[0]), o, path)
			if e.tty {
				fmt.Fprint(e.err, "\r\x1b[K")
			}
			if err != nil {
				return err
			}
			return e.print(r, func(w io.Writer) { traceText(w, r, path) })
		},
	}
	c.Flags().DurationVar(&o.Last, "last", app.DefaultTrace, "how much of the run's end")
	c.Flags().StringVar(&steps, "step", "", "a step, or steps as in 40..42, from the opening of their first group on")
	c.Flags().StringArrayVar(&o.JAX, "jax", nil, "merge this JAX profile, a folder or *.trace.json.gz (default: those that the trainer took in the window)")
	c.Flags().StringVarP(&path, "output", "o", "", "file to write (default RUN.pftrace)")
	f.flags(c)
	return c
}

// stepRange reads "40" and "40..42"; zeros for no text.
func stepRange(s string) (first, final subjects.Step, err error) {
	if s == "" {
		return 0, 0, nil
	}
	a, b, ranged := strings.Cut(s, "..")
	if !ranged {
		b = a
	}
	x, err1 := strconv.ParseInt(a, 10, 64)
	y, err2 := strconv.ParseInt(b, 10, 64)
	if err1 != nil || err2 != nil || x < 1 || y < x {
		return 0, 0, usageError{fmt.Errorf("--step %q: want a step from 1 on, or two as in 40..42", s)}
	}
	return subjects.Step(x), subjects.Step(y), nil
}

func (e *env) traceProgress(what string, messages int) {
	fmt.Fprintf(e.err, "\r\x1b[K%d messages read, now %s", messages, what)
}

func traceText(w io.Writer, r *app.TraceReport, path string) {
	fmt.Fprintf(w, "%s: %s of %s from %s, %.1f MB\n", path, r.To.Sub(r.From).Round(time.Millisecond), r.Run, r.From.Local().Format(time.DateTime), float64(r.Bytes)/1e6)
	fmt.Fprintf(w, "  %d trajectories, %d groups, %d steps, %d weight syncs, %d gauge values, %d spans; %d messages read\n",
		r.Trajectories, r.Groups, r.Steps, r.Syncs, r.Samples, r.Spans, r.Read)
	if r.Steps > 0 {
		fmt.Fprintf(w, "  the trainer waited %.2f s and trained %.2f s\n", r.WaitSeconds, r.TrainSeconds)
	}
	if r.Skew > 0 {
		fmt.Fprintf(w, "  clocks agree to ±%.1f ms\n", r.Skew*1e3)
	}
	if r.Dropped > 0 {
		fmt.Fprintf(w, "  %d spans found no room in their process since it started\n", r.Dropped)
	}
	if x := r.Sample; x != nil {
		fmt.Fprintf(w, "  of %d episodes begun from %s to %s, %d drawn by lot have spans of their own: there were too many to record\n",
			x.Recorded+x.LeftOut, x.From.Local().Format(time.TimeOnly), x.To.Local().Format(time.TimeOnly), x.Recorded)
	}
	if x := r.JAX; x != nil {
		fmt.Fprintf(w, "  JAX profiles: %d, with %d events on %d lines, placed to ±%.3g ms\n", x.Profiles, x.Events, x.Tracks, x.Uncertainty*1e3)
		if x.LeftOut+x.Unread > 0 {
			fmt.Fprintf(w, "  left out are %d shorter events and %d profiles that cannot be read\n", x.LeftOut, x.Unread)
		}
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(w, "  %d more trajectories are left out: choose a shorter window\n", r.LeftOut)
	}
	if !r.Until.IsZero() {
		fmt.Fprintf(w, "  an episode of it that ended after %s is not drawn\n", r.Until.Local().Format(time.DateTime))
	}
	if r.Unread > 0 {
		fmt.Fprintf(w, "  %d are not there any more or cannot be read\n", r.Unread)
	}
	fmt.Fprintln(w, "  open it at https://ui.perfetto.dev")
}
