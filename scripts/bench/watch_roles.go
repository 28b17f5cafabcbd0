package main

import (
	"context"
	"io"
	"time"

	"github.com/headrace/headrace/consumers/export"
	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// The kinds of watchers.
var watchers = []string{"tail", "replay", "export"}

// watched is what a watcher reports: how much it read.
type watched struct {
	Kind         string `json:"kind"`
	Trajectories uint64 `json:"trajectories"`
	Times        int    `json:"times"` // from the start of the log
}

// watch looks at the run as fast as it can until the benchmark is over: a tap, or
// the whole log again and again, its bodies included.
func watch(ctx context.Context, j job, p *parent) error {
	conn, err := j.connect(ctx, "watch")
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // it reads
	if err := p.ready(none{}); err != nil {
		return err
	}
	defer j.profile("watch-" + j.Kind)()
	w := watched{Kind: j.Kind}
	count := func(*replay.Record) error { w.Trajectories++; return nil }
	for ctx.Err() == nil {
		w.Times++
		switch j.Kind {
		case "tail":
			_, err = replay.Tail(ctx, conn, benchRun, replay.Filter{}, count)
		case "replay":
			err = replay.Read(ctx, conn, benchRun, replay.Filter{}, count)
		case "export":
			var c export.Counts
			c, err = exportAll(ctx, conn)
			w.Trajectories += c.Trajectories
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if w.Trajectories == 0 {
			time.Sleep(10 * time.Millisecond) // there is nothing yet
		}
	}
	return p.say(w)
}

// exportAll writes the run to nowhere, as lines of JSON.
func exportAll(ctx context.Context, conn *bus.Conn) (export.Counts, error) {
	h, err := export.HeaderOf(&subjects.RunRecord{V: 1, Run: benchRun, Schema: subjects.SchemaVersion, Recipe: []byte("{}")})
	if err != nil {
		return export.Counts{}, err
	}
	w, err := export.NewJSONL(io.Discard, h)
	if err != nil {
		return export.Counts{}, err
	}
	return export.Read(ctx, conn, benchRun, export.Filter{}, w)
}
