package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// line is one line of the trainer's log. It is on disk before the trainer acts on it.
type line struct {
	At     int64         `json:"at"`
	Event  string        `json:"event"` // start, batch, commit, saved, end
	Step   subjects.Step `json:"step"`
	Digest string        `json:"digest,omitempty"`
	State  string        `json:"state,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

// learn is an optimizer step that forgets nothing: the state depends on every
// batch since the start, in their order.
func learn(state, digest string) string {
	sum := sha256.Sum256([]byte(state + digest))
	return hex.EncodeToString(sum[:])
}

// trainer is the trainer's process: what the Python trainer does, in its order,
// without the arithmetic.
type trainer struct {
	job
	client *feed.Client
	log    *os.File
	every  subjects.Step // steps between checkpoints
	keep   int
	now    checkpoint
	saved  subjects.Step
}

// train trains until the feed ends. A lost feed ends the process, as it does in
// Python: the next one goes on from the checkpoint.
func train(ctx context.Context, j job) (err error) {
	t := &trainer{job: j}
	if t.log, err = os.OpenFile(j.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	defer t.log.Close()
	last, fresh, err := latestCheckpoint(j.Checkpoints)
	if err != nil {
		return err
	}
	t.now = last
	if err := t.dial(ctx, fresh); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = t.client.Abort() })()
	return t.run(fresh)
}

// dial waits for the bridge.
func (t *trainer) dial(ctx context.Context, fresh bool) (err error) {
	hello := feed.Hello{Client: "chaos"}
	if !fresh {
		hello.CheckpointStep = &t.now.Step
	}
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		t.client, err = feed.Dial(ctx, t.Feed, hello)
		if err == nil || errors.Is(err, feed.ErrRefused) {
			break
		}
	}
	return errors.Join(err, ctx.Err())
}

func (t *trainer) run(fresh bool) error {
	var told struct {
		Every subjects.Step `json:"checkpoint_every"`
		Keep  int           `json:"checkpoint_keep"`
	}
	if err := json.Unmarshal(t.client.Welcome.Trainer, &told); err != nil {
		return err
	}
	t.every, t.keep, t.saved = told.Every, told.Keep, t.now.Step
	if err := t.say(line{Event: "start", Step: t.now.Step, State: t.now.State}); err != nil {
		return err
	}
	if fresh {
		if err := t.save(); err != nil {
			return err
		}
	}
	if err := t.publish(); err != nil {
		return err
	}
	for {
		err := t.step()
		var end *feed.EndError
		switch {
		case errors.As(err, &end):
			return t.end(end)
		case err != nil:
			return err
		}
	}
}

// step takes a batch, notes it, learns from it and says so.
func (t *trainer) step() error {
	b, _, err := t.client.Next()
	if err != nil {
		return err
	}
	if err := t.say(line{Event: "batch", Step: b.Step, Digest: b.Digest}); err != nil {
		return err
	}
	time.Sleep(time.Duration(t.StepMS) * time.Millisecond)
	if err := t.client.Release(b); err != nil {
		return err
	}
	t.now = checkpoint{Step: b.Step, State: learn(t.now.State, b.Digest)}
	if err := t.client.Commit(feed.Commit{Step: b.Step, TrainS: 0.001 * float64(t.StepMS), Tokens: int64(b.Tokens)}); err != nil {
		return err
	}
	if err := t.say(line{Event: "commit", Step: b.Step}); err != nil {
		return err
	}
	if err := t.publish(); err != nil {
		return err
	}
	if b.Step%t.every == 0 {
		return t.save()
	}
	return nil
}

// publish writes the weights and announces them.
func (t *trainer) publish() error {
	files, dir, err := writeWeights(t.client.Welcome.Paths.Weights, t.now, t.client.Welcome.Incarnation)
	if err != nil {
		return err
	}
	return t.client.Weights(feed.Weights{Version: subjects.PolicyVersion(t.now.Step), Step: t.now.Step, Dir: dir, Format: "safetensors", Files: files})
}

// save makes a checkpoint durable and says so.
func (t *trainer) save() error {
	path, err := saveCheckpoint(t.Checkpoints, t.now, t.keep)
	if err != nil {
		return err
	}
	t.saved = t.now.Step
	if err := t.say(line{Event: "saved", Step: t.now.Step}); err != nil {
		return err
	}
	return t.client.Checkpointed(feed.Checkpointed{Step: t.now.Step, Path: path})
}

// end saves what is not saved and closes the feed. Only a complete run is over;
// a bridge that drained comes back.
func (t *trainer) end(e *feed.EndError) error {
	if t.saved < t.now.Step {
		if err := t.save(); err != nil {
			return err
		}
	}
	if err := t.say(line{Event: "end", Step: t.now.Step, State: t.now.State, Reason: e.Reason}); err != nil {
		return err
	}
	if err := t.client.Close("done"); err != nil {
		return err
	}
	if e.Reason == "drained" {
		return fmt.Errorf("the bridge stops after step %d", t.now.Step)
	}
	return nil
}

// say writes a line and syncs it.
func (t *trainer) say(l line) error {
	l.At = time.Now().UnixNano()
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := t.log.Write(append(text, '\n')); err != nil {
		return err
	}
	return t.log.Sync()
}
