package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/headrace/headrace/internal/nice"
)

// niceVariable says by how much a command that only looks gives way.
const niceVariable = "HEADRACE_NICE"

// reader is the PreRunE of a command that only looks: it gives way to those that
// play the run. Whoever calls [Main] for something else than the process's own
// output, as tests do, shares the process, and keeps its priority.
func (e *env) reader(*cobra.Command, []string) error {
	to := nice.Reader
	if text := os.Getenv(niceVariable); text != "" {
		var err error
		if to, err = strconv.Atoi(text); err != nil || to < 0 || to > nice.Highest {
			return usageError{fmt.Errorf("%s=%q: want a nice value from 0, as everything else, to %d", niceVariable, text, nice.Highest)}
		}
	}
	if e.out != io.Writer(os.Stdout) {
		return nil
	}
	if err := nice.GiveWay(to); err != nil {
		e.log.Debug().Err(err).Msg("this command does not give way to the run")
	}
	return nil
}
