package main

import (
	"context"
	"io"
	"time"

	"github.com/headrace/headrace/internal/app"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/nice"
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

// watch looks at the run as fast as it can until the benchmark is over, as the
// command of its name does, all but the printing: a tap, or the whole log again and
// again, its bodies included.
func watch(ctx context.Context, j job, p *parent) error {
	if err := nice.GiveWay(nice.Reader); err != nil {
		return err
	}
	if err := j.record(ctx); err != nil {
		return err
	}
	if err := p.ready(none{}); err != nil {
		return err
	}
	defer j.profile("watch-" + j.Kind)()
	w := watched{Kind: j.Kind}
	for ctx.Err() == nil {
		w.Times++
		if err := w.look(ctx, j.source()); err != nil && ctx.Err() == nil {
			return err
		}
		if w.Trajectories == 0 {
			time.Sleep(10 * time.Millisecond) // there is nothing yet
		}
	}
	return p.say(w)
}

// record makes the run's record, without which nothing is exported. The first
// watcher comes to it first: they are started one after the other.
func (j job) record(ctx context.Context) error {
	if j.Kind != watchers[0] {
		return nil
	}
	conn, err := j.connect(ctx, "record")
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the record is acknowledged
	return bus.CreateRun(ctx, conn, &subjects.RunRecord{V: 1, Run: benchRun, Schema: subjects.SchemaVersion, Recipe: []byte("{}")})
}

// source is the job's run, as a command is told where it is.
func (j job) source() app.Source {
	return app.Source{Bus: bus.Options{CredentialsFile: j.credentials()}, Remote: true, Log: logger()}
}

// look runs the command once.
func (w *watched) look(ctx context.Context, s app.Source) (err error) {
	each := func(*app.Replayed) error { w.Trajectories++; return nil }
	switch w.Kind {
	case "tail":
		_, err = app.Tail(ctx, s, benchRun, app.ReplayFilter{}, each)
	case "replay":
		_, err = app.Replay(ctx, s, benchRun, app.ReplayOptions{Each: each})
	case "export":
		var out *app.Exported
		if out, err = app.Export(ctx, s, benchRun, app.ExportOptions{Format: "jsonl", Path: "-", Stdout: io.Discard}); err == nil {
			w.Trajectories += out.Trajectories
		}
	}
	return err
}
