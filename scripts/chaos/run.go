package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/headrace/headrace/subjects"
)

// result is the outcome of one run: a line of the campaign's log.
type result struct {
	Fault string `json:"fault"`
	Index int    `json:"index"`
	Seed  uint64 `json:"seed"`
	verdict
	Wound    string  `json:"wound"`
	Recovery float64 `json:"recovery_s"` // -1: none to measure
	Stall    float64 `json:"stall_s"`    // the longest time without a commit from then on
	Wall     float64 `json:"wall_s"`
	Dir      string  `json:"dir,omitempty"` // of a run that failed
}

// bad reports whether the run is not what was promised.
func (r *result) bad() bool {
	return r.Error != "" || r.Lost+r.Duplicated+r.Mixed+r.Wrong > 0 && !r.Reported
}

// key names the run in its campaign.
func (r *result) key() string { return fmt.Sprintf("%s#%d", r.Fault, r.Index) }

// seedOf is the seed of one run of the campaign.
func seedOf(campaign uint64, fault string, index int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", campaign, fault, index)
	return h.Sum64()
}

// play plays one run: start, strike, wait for the end, check.
func play(ctx context.Context, o *options, f *fault, index int) result {
	r := result{Fault: f.name, Index: index, Seed: seedOf(o.seed, f.name, index), Recovery: -1}
	begun := time.Now()
	dir := filepath.Join(o.dir, fmt.Sprintf("%s-%d", f.name, index))
	_ = os.RemoveAll(dir)
	draw := rand.New(rand.NewPCG(r.Seed, 0))
	last := o.steps - 5
	w := newWorld(o, dir, draw, plan{step: subjects.Step(2 + draw.IntN(last-2))})
	w.plan.after = w.between(0, 250*time.Millisecond)
	if f.plan != nil {
		f.plan(w)
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	err := w.play(ctx, f, &r)
	cancel()
	if err != nil {
		r.Error = err.Error()
	}
	w.stop(true)
	r.Wall = time.Since(begun).Seconds()
	if r.bad() {
		r.Dir = dir
		text, _ := json.MarshalIndent(&r, "", " ")
		_ = os.WriteFile(w.path("result.json"), text, 0o644)
	} else if !o.keep {
		_ = os.RemoveAll(dir)
	}
	return r
}

// play plays it and fills in the result; an error is a run that did not get to
// its end or could not be judged.
func (w *world) play(ctx context.Context, f *fault, r *result) error {
	if err := w.start(ctx); err != nil {
		return fmt.Errorf("start the fleet: %w", err)
	}
	log := w.trainerLog()
	if err := log.awaitStep(ctx, w.plan.step); err != nil {
		return fmt.Errorf("wait for step %d: %w", w.plan.step, err)
	}
	if err := pause(ctx, w.plan.after); err != nil {
		return err
	}
	hurt, err := f.strike(ctx, w)
	if err != nil {
		return fmt.Errorf("strike: %w", err)
	}
	r.Wound = fmt.Sprintf("at step %d: %s", w.plan.step, hurt.Text)
	ending, cancel := ctx, func() {}
	if hurt.Loses { // it may never end
		ending, cancel = context.WithTimeout(ctx, 15*time.Second)
	}
	err = w.awaitEnd(ending, log)
	cancel()
	w.stop(false)
	switch {
	case hurt.Loses:
		return w.judgeLoss(ctx, err, hurt, r)
	case err != nil:
		r.Stuck = true
		return fmt.Errorf("after %s: %w", r.Wound, err)
	}
	return w.judge(ctx, hurt, r)
}

// awaitEnd waits until trainer and grouper say that the run is over.
func (w *world) awaitEnd(ctx context.Context, log *trainerLog) error {
	for _, name := range []string{"trainer", "group-a"} {
		select {
		case <-w.procs[name].done:
		case <-ctx.Done():
			lines, _ := log.read()
			return fmt.Errorf("the run is stuck: %s has not ended, the trainer has done %d of %d steps", name, last(lines), w.o.steps)
		}
	}
	return nil
}
