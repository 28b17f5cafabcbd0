package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	group "github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

const lonelyRecipe = `name: lake
environment: {name: frozenlake}
dataset: {eval_seeds: {first: 0, count: 1}}
grouper: {group_size: 4, groups_per_batch: 1, evaluation: {every: 0}}
bridge: {buckets: [160]}
model: {max_context: 160}
trainer: {steps: 8}
watchdog: {after: 1s, end_after: 3s}
`

// TestRun_ThatNobodyPlaysEndsForEveryRole: the trainer hears why it waits, then
// that the run ended and why, as do the grouper's caller, who watches, and the
// record that the other roles look at.
func TestRun_ThatNobodyPlaysEndsForEveryRole(t *testing.T) {
	m, ctx := newMember(t, lonelyRecipe), limited(t)
	socket := "unix:" + filepath.Join(shortDir(t), "feed")
	s := parts(t)
	s.start("bridge", func(ctx context.Context) error {
		return m.bridge(ctx, BridgeOptions{Listen: []string{socket}, Weights: t.TempDir(), Checkpoints: t.TempDir()})
	})
	board := NewBoard(time.Now(), 8)
	s.start("board", func(ctx context.Context) error { return watch(ctx, m.conn, m.run, board) })
	grouped := make(chan error, 1)
	s.start("grouper", func(ctx context.Context) error { grouped <- m.group(ctx, "test"); return nil })
	c := dial(ctx, t, socket)
	var told []feed.Notice
	c.OnNotice = func(n feed.Notice) { told = append(told, n) }
	var end *feed.EndError
	if _, _, err := c.Next(); !errors.As(err, &end) || end.Reason != subjects.EndNoProducers || !strings.Contains(end.Text, "no producer is connected") {
		t.Fatalf("the trainer got %v", err)
	}
	if err := c.Close("done"); err != nil {
		t.Error(err)
	}
	if len(told) == 0 || told[0].Code != subjects.NoProducers || told[0].Stage != subjects.StageProducer {
		t.Errorf("the trainer was told %+v", told)
	}
	var ended *group.Ended
	if err := <-grouped; !errors.As(err, &ended) || ended.Reason != subjects.EndNoProducers || strings.Contains(err.Error(), "\n") {
		t.Errorf("the grouper returned %v", err)
	}
	if reason, err := bus.AwaitRunEnd(ctx, m.conn, m.run); reason != subjects.EndNoProducers || err != nil {
		t.Errorf("the record says %q, %v", reason, err)
	}
	for state := board.State(); state.End == "" || state.Stall != nil; state = board.State() { // the stall ends with the run
		select {
		case <-ctx.Done():
			t.Fatalf("the board says %+v", state)
		case <-time.After(10 * time.Millisecond):
		}
	}
	state := board.State()
	if err := state.endError(); err == nil || state.End != subjects.EndNoProducers {
		t.Errorf("the board says %q, %v", state.End, err)
	}
}

func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "hr") // socket paths are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestRun_WithAnEmptyDatasetEndsAtOnce: the rows are read where the grouper is.
func TestRun_WithAnEmptyDatasetEndsAtOnce(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "tasks.jsonl")
	if err := os.WriteFile(rows, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(lonelyRecipe, "dataset: {eval_seeds: {first: 0, count: 1}}", "dataset: {path: "+rows+"}", 1)
	m, ctx := newMember(t, text), limited(t)
	var ended *group.Ended
	if err := m.group(ctx, "test"); !errors.As(err, &ended) || ended.Reason != subjects.EndEmptyDataset || !strings.Contains(ended.Text, "has no rows") {
		t.Errorf("the grouper returned %v", err)
	}
	if reason, err := bus.AwaitRunEnd(ctx, m.conn, m.run); reason != subjects.EndEmptyDataset || err != nil {
		t.Errorf("the record says %q, %v", reason, err)
	}
	r, err := recipe.Parse("lake.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var mistake *recipe.Error
	if err := checkDataset("lake.yaml", r); !errors.As(err, &mistake) || mistake.Field != "dataset.path" {
		t.Errorf("`headrace up` gets %v", err)
	}
}

func TestView_SaysWhyTheRunStandsStill(t *testing.T) {
	b := NewBoard(time.Now(), 100)
	b.Stands(&subjects.Stall{Code: subjects.NoProducers, Text: "no producer is connected", Since: time.Now().UnixNano()})
	s := b.State()
	text := strings.Join((&view{title: "headrace lake-1", plain: true}).render(&s), "\n")
	if !strings.Contains(text, "\nstalled   no_producers, since ") || !strings.Contains(waitLine(&s), "no producer is connected") {
		t.Errorf("shows:\n%s", text)
	}
	b.Stands(&subjects.Stall{})
	if s := b.State(); strings.Contains(strings.Join((&view{}).render(&s), "\n"), "stalled") {
		t.Error("shows a stall that is over")
	}
}
