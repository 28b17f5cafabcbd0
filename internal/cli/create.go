package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/app"
)

// created is the result of `headrace runs create`.
type created struct {
	Run    string `json:"run"`
	Recipe string `json:"recipe"`
}

func newRunsCreate(e *env) *cobra.Command {
	var j joinFlags
	var replicas int
	c := &cobra.Command{
		Use: "create RUN --recipe RECIPE", Short: "Make a run on a bus: its streams, buckets, keys and record", Args: exactArgs(1, "the run's name"),
		Long: `Make a run on a bus: its streams, buckets, keys and record. It takes an
administrator's credentials; the roles that join need less. A run that is there
with the same recipe is left as it is.`,
		RunE: func(c *cobra.Command, args []string) error {
			recipe, _ := c.Flags().GetString("recipe")
			if recipe == "" {
				return usageError{errors.New("of which recipe? name its file or folder with --recipe")}
			}
			if replicas < 0 || replicas > 5 {
				return usageError{fmt.Errorf("--replicas %d: want 1 to 5, and no more than the cluster has servers", replicas)}
			}
			j.run = args[0]
			join, err := j.join(e, "runs create")
			if err != nil {
				return err
			}
			join.Recipe = recipe
			if err := app.CreateRun(c.Context(), join, replicas); err != nil {
				return err
			}
			return e.print(created{args[0], recipe}, func(w io.Writer) { fmt.Fprintf(w, "run %s is there\n", args[0]) })
		},
	}
	j.busFlags(c)
	j.waitFlag(c)
	c.Flags().String("recipe", "", "the recipe's `file`, or the folder with its recipe.yaml")
	c.Flags().IntVar(&replicas, "replicas", 1, "copies of every stream: 1, or 3 on a cluster of three")
	return c
}
