// Command headrace streams the rollouts of agentic RL to their trainer.
package main

import (
	"os"

	"github.com/headrace/headrace/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
