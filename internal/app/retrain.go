package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// CopyReport sums up a run that was copied.
type CopyReport struct {
	Run  subjects.Run  `json:"run"`
	To   subjects.Run  `json:"to"`
	Step subjects.Step `json:"last_step"`
	replay.Digest
	// Sum is the digest of the copy's trajectories.
	Sum     string  `json:"digest"`
	Seconds float64 `json:"seconds"`
}

// CopyRun copies a run, up to the batch of a step or whole (0), into a new one
// beside it: on the bus that was named, or in a folder of its own.
func CopyRun(ctx context.Context, s Source, run, name subjects.Run, until subjects.Step) (*CopyReport, error) {
	if err := name.Validate(); err != nil {
		return nil, err
	}
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := openRecording(ctx, conn, run, s.Log)
	if err != nil {
		return nil, err
	}
	r.until, r.look = until, true
	return s.copyOf(ctx, r, name)
}

// copyOf copies a recording into a new run.
func (s Source) copyOf(ctx context.Context, r *recording, name subjects.Run) (out *CopyReport, err error) {
	began, to := time.Now(), r.conn
	if !s.Remote {
		dir := filepath.Join(s.Root, string(name))
		if err := makeRunDir(dir); err != nil {
			return nil, err
		}
		var stop func()
		if to, stop, err = openStopped(ctx, runDir(dir), bus.Options{Name: "headrace replay", Log: s.Log}); err != nil {
			return nil, err
		}
		defer func() {
			stop()
			if err != nil {
				err = errors.Join(err, os.RemoveAll(dir)) // made above, and not whole
			}
		}()
	}
	out = &CopyReport{Run: r.run, To: name}
	if out.Step, err = r.copyTo(ctx, to, name); err != nil {
		return nil, err
	}
	err = replay.Read(ctx, to, name, replay.Filter{}, func(rec *replay.Record) error { out.Add(rec); return nil })
	out.Sum, out.Seconds = out.Digest.Sum(), time.Since(began).Seconds()
	return out, err
}

// RetrainOptions configure [Retrain].
type RetrainOptions struct {
	// Until ends it with the batch of this step; 0: the last one.
	Until subjects.Step
	// Dir is the folder for checkpoints and weights. Default: one that is removed.
	Dir string
	// Listen is where the trainer connects. Default: a socket in Dir.
	Listen string
	// Token is what a trainer over TCP must show.
	Token string
	// Trainer is started, if it names a program.
	Trainer Companion
	// Ready, when set, is told where a trainer is waited for.
	Ready func(address string)
	// Each, when set, is called with each step that was trained.
	Each func(*subjects.CommitEvent)
}

// Retrain feeds the batches of a recorded run to a fresh trainer: a bridge over a
// copy of the run, on a server in this process. The run does not change.
func Retrain(ctx context.Context, s Source, run subjects.Run, o RetrainOptions) (last subjects.Step, err error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return 0, err
	}
	defer done()
	r, err := openRecording(ctx, conn, run, s.Log)
	if err != nil {
		return 0, err
	}
	r.until = o.Until
	store, err := os.MkdirTemp("", "headrace-replay-")
	if err != nil {
		return 0, fmt.Errorf("replay to a trainer: %w", err)
	}
	defer os.RemoveAll(store) //nolint:errcheck // a copy
	if o.Dir == "" {
		o.Dir = store
	}
	dir := runDir(absolute(o.Dir))
	if err := dir.makeFolders(); err != nil {
		return 0, err
	}
	to, stop, err := openStopped(ctx, runDir(store), bus.Options{Name: "headrace replay", Log: s.Log})
	if err != nil {
		return 0, err
	}
	defer stop()
	if last, err = r.copyTo(ctx, to, run); err != nil {
		return last, err
	}
	if last == 0 {
		return 0, fmt.Errorf("run %s has no batch to train on", run)
	}
	return last, o.train(ctx, to, run, dir, last, s.Log)
}

// train serves the copy to a trainer until it has applied the last step.
func (o *RetrainOptions) train(ctx context.Context, conn *bus.Conn, run subjects.Run, dir runDir, last subjects.Step, log zerolog.Logger) error {
	m, err := join(ctx, conn, run, log)
	if err != nil {
		return err
	}
	if o.Listen == "" {
		o.Listen = "unix:" + dir.feed()
	}
	if o.Ready != nil {
		o.Ready(o.Listen)
	}
	b := BridgeOptions{Listen: []string{o.Listen}, Weights: dir.weights(), Checkpoints: dir.checkpoints(), Demos: dir.demos(), Model: dir.model(), Token: o.Token, Trainer: o.Trainer}
	return m.feed(ctx, b, func(ctx context.Context, b BridgeOptions) error { return o.bridge(ctx, m, b, last) })
}

// bridge serves the copy until the last step is applied and the trainer, which
// the ledger told of the end, has gone.
func (o *RetrainOptions) bridge(ctx context.Context, m *member, b BridgeOptions, last subjects.Step) error {
	there := &trainers{changed: make(chan struct{}, 1)}
	b.onEvent = there.event
	g, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	g.Go(func() error { return unlessOver(ctx, m.bridge(ctx, b)) })
	g.Go(func() error {
		if err := o.commits(ctx, m, last); err != nil {
			return err
		}
		for there.connected() > 0 {
			select {
			case <-there.changed:
			case <-ctx.Done():
				return nil
			}
		}
		end(errRunOver)
		return nil
	})
	return g.Wait()
}

// commits follows what the trainer applies, up to the last step.
func (o *RetrainOptions) commits(ctx context.Context, m *member, last subjects.Step) error {
	err := bus.Follow(ctx, m.conn, m.run.StreamName(subjects.Weights), m.run.WeightsSubject(subjects.EventCommit), 1, func(msg *bus.Msg) error {
		var c subjects.CommitEvent
		if err := subjects.DecodeMessage(msg.Data, &c); err != nil {
			return err
		}
		if o.Each != nil {
			o.Each(&c)
		}
		if c.Step >= last {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
