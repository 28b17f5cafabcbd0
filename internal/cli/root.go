// Package cli is the command line: flags, output and exit codes. What a
// command does is in package app.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // a flag or a recipe is wrong
	exitBus         = 3 // no NATS server answers
	exitCheck       = 4 // a check found something
	exitInterrupted = 130
)

// env is what every command shares.
type env struct {
	out, err io.Writer
	log      zerolog.Logger
	json     bool
	verbose  bool
	tty      bool // stderr is a terminal
}

// usageError marks errors that exit with exitUsage.
type usageError struct{ error }

// Main runs the command line and returns the exit code.
func Main(args []string, out, errw io.Writer) int {
	e := &env{out: out, err: errw}
	if f, ok := errw.(*os.File); ok {
		e.tty = term.IsTerminal(int(f.Fd()))
	}
	root := newRoot(e)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errw)
	ctx, stop := signals()
	defer stop()
	err := execute(ctx, root, args)
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(errw, "headrace: "+advised(err).Error())
	}
	return exitCode(ctx, err)
}

func execute(ctx context.Context, root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	if _, _, err := root.Find(args); err != nil {
		return usageError{fmt.Errorf("%w (see `headrace --help`)", err)}
	}
	return root.ExecuteContext(ctx)
}

// signals returns a context that the first interrupt ends; a second one kills.
func signals() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from here on a signal has its default effect
	return ctx, stop
}

func exitCode(ctx context.Context, err error) int {
	var usage usageError
	var mistake *recipe.Error
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, app.ErrInterrupted) || errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, &mistake), errors.Is(err, app.ErrRunExists), errors.Is(err, app.ErrNothingToResume):
		return exitUsage
	case errors.Is(err, app.ErrDiscrepancies), errors.Is(err, app.ErrDiffer):
		return exitCheck
	case errors.Is(err, bus.ErrUnreachable):
		return exitBus
	}
	return exitFailed
}

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:           "headrace",
		Short:         "The channel between the rollouts and the trainer of an agentic RL run",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			e.log = e.newLog()
			return nil
		},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see `%s --help`)", err, c.CommandPath())}
	})
	root.PersistentFlags().BoolVar(&e.json, "json", false, "print results as JSON")
	root.PersistentFlags().BoolVarP(&e.verbose, "verbose", "v", false, "log details, the output of the Python processes too")
	root.AddCommand(newUp(e), newAuth(e), newProduce(e), newGroup(e), newBridge(e), newEngine(e), newRuns(e), newShow(e), newTop(e), newUI(e), newTrace(e), newMetrics(e), newOtel(e), newReplay(e), newTail(e), newRegroup(e), newDiff(e), newExport(e), newImport(e), newAudit(e), newDeadLetter(e), newDemos(e), newRecipe(e), newHealth(e), newVersion(e))
	return root
}

func (e *env) newLog() zerolog.Logger {
	level := zerolog.InfoLevel
	if e.verbose {
		level = zerolog.DebugLevel
	}
	var w io.Writer = e.err
	if e.tty {
		w = zerolog.ConsoleWriter{Out: e.err, TimeFormat: "15:04:05", NoColor: os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// print writes a result: as JSON with --json, else by text.
func (e *env) print(v any, text func(io.Writer)) error {
	if !e.json {
		text(e.out)
		return nil
	}
	enc := json.NewEncoder(e.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s takes %s (see `%s --help`)", c.CommandPath(), what, c.CommandPath())}
		}
		return nil
	}
}
