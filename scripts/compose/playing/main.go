// Command playing waits until producers that it is not told of have published a
// trajectory each, and prints who and when, as lines of "NAME UNIX-SECONDS".
// compose-test measures with it how long a new producer takes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "playing: "+err.Error())
		os.Exit(1)
	}
}

var errAll = errors.New("all play")

func run() error {
	url := flag.String("url", "", "NATS server")
	creds := flag.String("creds", "", "credentials of a viewer")
	name := flag.String("run", "", "the run")
	known := flag.String("known", "", "producers that do not count, with commas")
	count := flag.Int("count", 1, "how many to wait for; 0 lists those that play now")
	patience := flag.Duration("timeout", time.Minute, "how long to wait")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	conn, err := bus.Connect(ctx, bus.Options{URL: *url, Creds: *creds, Name: "playing", Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it only reads
	w := watch{run: subjects.Run(*name), seen: strings.Split(*known, ","), want: *count}
	err = w.follow(ctx, conn)
	if errors.Is(err, errAll) || *count == 0 && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// watch prints every producer once.
type watch struct {
	run  subjects.Run
	seen []string
	want int // so many more; 0: as many as there are
}

func (w *watch) follow(ctx context.Context, conn *bus.Conn) error {
	state, err := bus.StreamState(ctx, conn, w.run, subjects.Telemetry)
	if err != nil {
		return err
	}
	return bus.Follow(ctx, conn, w.run.StreamName(subjects.Telemetry), w.run.TelemetrySubject("produce", "*"), state.LastSeq+1, func(m *bus.Msg) error {
		var g subjects.Gauges
		if subjects.DecodeMessage(m.Data, &g) != nil || g.Values["published"] == 0 || slices.Contains(w.seen, g.Instance) {
			return nil
		}
		w.seen = append(w.seen, g.Instance)
		fmt.Printf("%s %.3f\n", g.Instance, float64(g.At)/1e9)
		if w.want--; w.want == 0 {
			return errAll
		}
		return nil
	})
}
