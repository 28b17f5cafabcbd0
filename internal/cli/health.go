package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
)

// healthFile is where a role notes that it lives; empty: nowhere.
func healthFile() string { return os.Getenv("HEADRACE_HEALTH_FILE") }

func newHealth(e *env) *cobra.Command {
	return &cobra.Command{
		Use: "health", Short: "Say whether the role in this container is alive, for health checks", Args: exactArgs(0, "no argument"),
		Long: `Say whether the role in this container is alive, for health checks. Every role
renews the file HEADRACE_HEALTH_FILE while the bus answers it; a file older than
15 seconds is the exit code 1. That the run gets on is another question, and
the watchdog's.`,
		RunE: func(*cobra.Command, []string) error {
			file := healthFile()
			if file == "" {
				return usageError{errors.New("set HEADRACE_HEALTH_FILE, here and for the role")}
			}
			age, err := app.Health(file)
			if err != nil {
				return err
			}
			return e.print(struct {
				AgeS float64 `json:"age_s"`
			}{age.Seconds()}, func(w io.Writer) {
				fmt.Fprintf(w, "alive: the bus answered %s ago\n", age.Round(time.Second)) //nolint:errcheck // a closed pipe
			})
		},
	}
}
