// Command synthetic writes a made-up run into a run folder, which `headrace show`,
// `ui`, `audit` and `replay` then open as a run that has stopped: large runs to
// look at without the hours of playing them.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "synthetic:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := flag.String("dir", "runs", "folder of run folders")
	name := flag.String("run", "synthetic", "name of the run")
	trajectories := flag.Int("trajectories", 5000, "how many trajectories, about")
	seed := flag.Int64("seed", 0, "two runs of a seed are equal")
	flag.Parse()
	folder := filepath.Join(*dir, *name)
	if err := subjects.Run(*name).Validate(); err != nil {
		return err
	}
	if _, err := os.Stat(folder); err == nil {
		return fmt.Errorf("%s is there already; choose another --run", folder)
	}
	for _, part := range []string{"weights", "checkpoints", "model", "logs"} { // what `headrace up` makes of a run
		if err := os.MkdirAll(filepath.Join(folder, part), 0o755); err != nil {
			return err
		}
	}
	server, err := bus.StartServer(ctx, bus.ServerOptions{StoreDir: filepath.Join(folder, "nats"), Port: -1, Sync: "10m", Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	conn, err := bus.Connect(ctx, server.Options())
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // everything is answered
	o := synth.Options{Run: subjects.Run(*name), Trajectories: *trajectories, Seed: *seed}
	if st, err := os.Stderr.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
		o.Progress = func(done int) { fmt.Fprintf(os.Stderr, "\r%d trajectories", done) }
	}
	report, err := synth.Write(ctx, conn, o)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(report)
}
