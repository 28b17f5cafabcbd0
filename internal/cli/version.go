package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
)

func newVersion(e *env) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print what this binary is", Args: exactArgs(0, "no argument"),
		RunE: func(*cobra.Command, []string) error {
			v := app.BuildInfo()
			return e.print(v, func(w io.Writer) {
				fmt.Fprintf(w, "headrace %s (%s, schema %d, %s)\n", v.Version, v.Revision, v.Schema, v.Go)
			})
		},
	}
}
