package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// joinFlags are the flags of every command that finds a run on a bus.
type joinFlags struct {
	bus  bus.Options
	run  string
	wait time.Duration
	id   bus.Identity // whose credentials they are
	// metrics is the address of a role's own numbers.
	metrics string
}

func (j *joinFlags) busFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&j.bus.URL, "url", "", "NATS server, or several with commas (default: NATS_URL, the nats context, nats://127.0.0.1:4222)")
	f.StringVar(&j.bus.Creds, "creds", "", "NATS credentials file, or a folder of them: the first that no process on this host has taken (default: NATS_CREDS)")
	f.StringVar(&j.bus.CA, "ca", "", "`file` of the CA that the server's certificate must be from (default: NATS_CA, what came with the credentials)")
	f.StringVar(&j.bus.Context, "context", "", "context of the nats CLI (default: NATS_CONTEXT, the selected one)")
	f.StringVar(&j.bus.CredentialsFile, "credentials", "", "`file` nats.json in the folder of a run that headrace up plays on this machine")
}

func (j *joinFlags) flags(c *cobra.Command) {
	j.busFlags(c)
	c.Flags().StringVar(&j.run, "run", os.Getenv("HEADRACE_RUN"), "name of the run (default: the one the credentials are for)")
	j.waitFlag(c)
}

func (j *joinFlags) waitFlag(c *cobra.Command) {
	c.Flags().DurationVar(&j.wait, "wait", envDuration("HEADRACE_WAIT", 5*time.Second), "how long to wait for a bus that does not answer yet, or for the run to be made (HEADRACE_WAIT)")
}

// join is for the command that takes part in the run.
func (j *joinFlags) join(e *env, command string) (app.Join, error) {
	var err error
	if j.id, err = j.bus.Identify(); err != nil {
		return app.Join{}, usageError{err}
	}
	if j.run == "" {
		j.run = string(j.id.Run)
	}
	if j.run == "" {
		return app.Join{}, usageError{fmt.Errorf("which run? name it with --run (`headrace runs` lists them)")}
	}
	if err := validRun(j.run); err != nil {
		return app.Join{}, err
	}
	if err := fits(j.id, command, subjects.Run(j.run)); err != nil {
		return app.Join{}, err
	}
	return app.Join{Bus: j.bus, Run: subjects.Run(j.run), Wait: j.wait, Health: healthFile(), Metrics: j.metrics, Log: e.log}, nil
}

// name is the credentials' own where the user chose none: roles that have
// credentials of their own speak under no other.
func (j *joinFlags) name(c *cobra.Command, given string) string {
	if c.Flags().Changed("name") || j.id.Role == "" {
		return given
	}
	return j.id.Name
}

// envDuration is a duration from the environment; one that cannot be read is as good as none.
func envDuration(name string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(name)); err == nil {
		return d
	}
	return otherwise
}

func validRun(name string) error {
	if err := subjects.Run(name).Validate(); err != nil {
		return usageError{err}
	}
	return nil
}

// instance is a name for this process that no other live one has.
func instance(role string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	clean := strings.Map(func(r rune) rune {
		if r < 128 && subjects.ValidToken(string(r)) {
			return r
		}
		return '-'
	}, host)
	return fmt.Sprintf("%s-%.30s-%d", role, clean, os.Getpid())
}

func newProduce(e *env) *cobra.Command {
	var j joinFlags
	var o app.ProduceOptions
	c := &cobra.Command{
		Use: "produce", Short: "Join a live run as a producer: lease tasks, play episodes, publish trajectories", Args: exactArgs(0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			join, err := j.join(e, "produce")
			if err != nil {
				return err
			}
			o.Name = j.name(c, o.Name)
			if err := speaks(j.id, o.Name); err != nil {
				return err
			}
			return app.Produce(c.Context(), join, o)
		},
	}
	j.flags(c)
	metricsFlag(c, &j.metrics)
	c.Flags().StringVar(&o.Name, "name", instance("producer"), "name of this producer, unique among live ones (default: the credentials' name)")
	c.Flags().IntVar(&o.Episodes, "episodes", 0, "episodes played at once (default: the recipe's)")
	return c
}

func newGroup(e *env) *cobra.Command {
	var j joinFlags
	var writer, recipe string
	c := &cobra.Command{
		Use: "group", Short: "Be a run's grouper: issue tasks, assemble groups, cut batches", Args: exactArgs(0, "no argument"),
		Long: `Be a run's grouper: issue tasks, assemble groups, cut batches. With --recipe the
run is made if the bus has none of that name; the other roles can then join it.`,
		RunE: func(c *cobra.Command, _ []string) error {
			join, err := j.join(e, "group")
			if err != nil {
				return err
			}
			join.Recipe = recipe
			return app.Group(c.Context(), join, writer)
		},
	}
	j.flags(c)
	metricsFlag(c, &j.metrics)
	c.Flags().StringVar(&writer, "name", instance("grouper"), "name of this grouper in the ledger")
	c.Flags().StringVar(&recipe, "recipe", "", "make the run of this recipe, if the bus has none of that name")
	return c
}

func newBridge(e *env) *cobra.Command {
	var j joinFlags
	var o app.BridgeOptions
	c := &cobra.Command{
		Use: "bridge [flags] [-- TRAINER ARGS...]", Short: "Feed a run's batches to a trainer", Args: afterDash,
		Long: `Feed a run's batches to a trainer, over a Unix socket with shared memory or over TCP.
A trainer that comes over TCP must show the token in HEADRACE_FEED_TOKEN, if it is set.

A trainer named after -- is started, started again when it dies, and ends with
the bridge. It finds the feed in HEADRACE_FEED and the folder of its checkpoints
in HEADRACE_CHECKPOINTS.`,
		Example: "  headrace bridge --run lake -- python -m headrace.trainer --exit-with-parent",
		RunE: func(c *cobra.Command, args []string) error {
			join, err := j.join(e, "bridge")
			if err != nil {
				return err
			}
			o.Trainer = app.Companion{Args: args, Output: e.err}
			o.Token, o.Name = os.Getenv("HEADRACE_FEED_TOKEN"), instance("bridge")
			return app.Bridge(c.Context(), join, o)
		},
	}
	j.flags(c)
	metricsFlag(c, &j.metrics)
	f := c.Flags()
	f.StringSliceVar(&o.Listen, "listen", []string{"unix:feed.sock"}, "where the trainer connects: unix:PATH or tcp:HOST:PORT; may be given twice")
	f.StringVar(&o.Weights, "weights", "weights", "folder that the trainer publishes weights in; engines must see it under the same path")
	f.StringVar(&o.Checkpoints, "checkpoints", "checkpoints", "folder of the trainer's checkpoints")
	f.StringVar(&o.Demos, "demos", "demos.jsonl", "file of the warm start's demonstrations; made if it is not there and the recipe wants one")
	f.StringVar(&o.Model, "model", "", "folder to write the reference model's config.json in, for python -m headrace.engine --model-path")
	return c
}

func newEngine(e *env) *cobra.Command {
	var j joinFlags
	var o app.EngineOptions
	c := &cobra.Command{
		Use: "engine [flags] [-- ENGINE ARGS...]", Short: "Stand beside an inference engine: load every new version of the weights into it", Args: afterDash,
		Long: `Stand beside an inference engine: load every new version of the weights into it.

An engine named after -- is started, started again when it dies, and ends with
its sidecar. It finds the folder of --model in HEADRACE_MODEL and how many
sequences the recipe wants it to hold in HEADRACE_SLOTS.`,
		Example: "  headrace engine --run lake --model model -- python -m headrace.engine --exit-with-parent",
		RunE: func(c *cobra.Command, args []string) error {
			join, err := j.join(e, "engine")
			if err != nil {
				return err
			}
			o.Engine = app.Companion{Args: args, Output: e.err}
			o.Name = j.name(c, o.Name)
			if err := speaks(j.id, o.Name); err != nil {
				return err
			}
			return app.Engine(c.Context(), join, o)
		},
	}
	j.flags(c)
	metricsFlag(c, &j.metrics)
	c.Flags().StringVar(&o.Name, "name", instance("engine"), "name of the engine in the run's registry")
	c.Flags().StringVar(&o.URL, "engine-url", "http://127.0.0.1:30000", "where the engine serves SGLang's API, as producers reach it; the host \"auto\" is this machine's address as the bus sees it")
	c.Flags().StringVar(&o.Model, "model", "", "folder to write the reference model's config.json in, for python -m headrace.engine")
	return c
}

// afterDash takes a command after "--" and no other argument.
func afterDash(c *cobra.Command, args []string) error {
	if dash := c.ArgsLenAtDash(); dash > 0 || dash < 0 && len(args) > 0 {
		return usageError{fmt.Errorf("%s takes a command after -- and no other argument (see `%s --help`)", c.CommandPath(), c.CommandPath())}
	}
	if len(args) > 0 {
		if _, err := exec.LookPath(args[0]); err != nil {
			return usageError{fmt.Errorf("start what is named after --: %w", err)}
		}
	}
	return nil
}
