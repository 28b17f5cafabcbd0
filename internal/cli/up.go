package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
)

func newUp(e *env) *cobra.Command {
	o := app.UpOptions{}
	var seed int64
	c := &cobra.Command{
		Use:   "up RECIPE",
		Short: "Run a recipe: every role in one process, on an embedded NATS server",
		Long: `Run a recipe: every role in one process on an embedded NATS server, with the
trainer and the engines as Python processes under supervision. RECIPE is a file,
or a folder with a recipe.yaml. Ctrl-C drains and says how to go on.`,
		Args: exactArgs(1, "a recipe"),
		RunE: func(c *cobra.Command, args []string) error {
			o.Recipe, o.Began, o.Log = args[0], began(), e.log
			if c.Flags().Changed("seed") {
				o.Seed = &seed
			}
			if o.Port < 0 || o.Port > 65535 {
				return usageError{fmt.Errorf("--port %d: want 0 to 65535", o.Port)}
			}
			if o.Run != "" {
				if err := validRun(o.Run); err != nil {
					return err
				}
			}
			if e.tty && !e.verbose {
				o.Terminal = e.err
			}
			s, err := app.Up(c.Context(), o)
			if s == nil {
				return err
			}
			return errors.Join(e.print(s, func(w io.Writer) { s.WriteText(w) }), err)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Run, "run", "", "name of the run (default: the recipe's, with the next free number)")
	f.StringVar(&o.Root, "dir", envOr("HEADRACE_DIR", app.DefaultRoot), "folder that run folders are in")
	f.BoolVar(&o.Resume, "resume", false, "go on with a run from its last checkpoint")
	f.Int64Var(&seed, "seed", 0, "replace the recipe's seed")
	f.IntVar(&o.Port, "port", 0, "loopback port of the embedded server (0: any free one)")
	f.BoolVar(&o.NoUI, "no-ui", false, "serve no page to look at the run (its address is printed at the start)")
	f.StringVar(&o.Python, "python", "", "interpreter of trainer and engine (default: HEADRACE_PYTHON, then .venv, then python3)")
	metricsFlag(c, &o.Metrics)
	f.StringVar(&o.Summary, "summary", "", "also write the summary to this path, as .json and .svg")
	return c
}

// began is when the user typed the command, where a wrapper such as make says
// so, in Unix seconds.
func began() time.Time {
	if s, err := strconv.ParseInt(os.Getenv("HEADRACE_BEGAN"), 10, 64); err == nil {
		return time.Unix(s, 0)
	}
	return time.Now()
}

func envOr(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func newRecipe(e *env) *cobra.Command {
	c := &cobra.Command{
		Use: "recipe", Short: "Look at recipes", Args: exactArgs(0, "a command: check"),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use: "check RECIPE", Short: "Check a recipe and print it with every default in place", Args: exactArgs(1, "a recipe"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := app.ResolveRecipe(args[0])
			if err != nil {
				return err
			}
			fmt.Fprint(e.out, text)
			return nil
		},
	})
	return c
}

func newDemos(e *env) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "demos RECIPE", Short: "Write the demonstrations of a recipe's warm start", Args: exactArgs(1, "a recipe"),
		RunE: func(c *cobra.Command, args []string) error {
			return app.Demos(c.Context(), args[0], out, e.log)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "demos.jsonl", "file to write")
	return c
}
