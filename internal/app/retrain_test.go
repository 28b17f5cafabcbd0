package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/recipe"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

const retrained = `name: lake
environment: {name: frozenlake, params: {size: 4}}
dataset: {eval_seeds: {first: 0, count: 8}}
grouper: {group_size: 4, groups_per_batch: 1, evaluation: {every: 10, tasks: 8}}
bridge: {buckets: [160]}
model: {max_context: 160}
trainer: {steps: 10}
`

// recordRun makes the folder of a stopped run with so many steps of one group.
func recordRun(t *testing.T, run subjects.Run, steps int) Source {
	t.Helper()
	s := Source{Root: t.TempDir(), Log: zerolog.Nop()}
	conn, stop, err := openStopped(t.Context(), runDir(filepath.Join(s.Root, string(run))), bus.Options{Log: s.Log})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	r, err := recipe.Parse("lake.yaml", []byte(retrained))
	if err == nil {
		err = ensureRun(t.Context(), conn, run, r, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := bus.LeaseKey(t.Context(), conn, run)
	if err != nil {
		t.Fatal(err)
	}
	pub := bus.NewPublisher(conn, bus.PublisherConfig{Run: run, Producer: "p1"})
	m, err := join(t.Context(), conn, run, s.Log)
	if err != nil {
		t.Fatal(err)
	}
	to := &target{conn: conn, run: run}
	for n := range steps {
		e := &subjects.Entry{V: 1, At: int64(n + 1), Writer: "g", Batches: []subjects.Batch{{Step: subjects.Step(n + 1)}}}
		b := &e.Batches[0]
		g := subjects.BatchGroup{Group: subjects.TrainGroup(uint64(n)), Environment: "frozenlake"} //nolint:gosec // small
		for slot := range 4 {
			tr := sample(g.Group, subjects.Slot(slot), m.tok.ID(), key)
			at, err := pub.Publish(t.Context(), tr)
			if err != nil {
				t.Fatal(err)
			}
			msg, err := bus.Read(t.Context(), conn, run.StreamName(subjects.Rollouts), at.Seq)
			if err != nil {
				t.Fatal(err)
			}
			x, err := subjects.ParseIndex(msg.Header[subjects.HeaderIndex][at.Index])
			if err != nil {
				t.Fatal(err)
			}
			g.Members = append(g.Members, subjects.Member{Slot: x.Slot, Seq: at.Seq, Index: at.Index, Offset: x.Offset, Length: x.Length, Checksum: x.Checksum,
				Status: x.Status, Reward: x.Reward, Segments: x.Segments, Tokens: x.Tokens, Longest: x.Longest, Advantage: float64(slot) - 1.5})
			b.Rows, b.Tokens, b.Longest, e.Rollouts = b.Rows+1, b.Tokens+x.Tokens, max(b.Longest, x.Longest), at.Seq
		}
		b.Groups, b.Watermark, e.Low = []subjects.BatchGroup{g}, 1, 1
		if err := to.append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func sample(g subjects.GroupID, slot subjects.Slot, tokenizer string, key []byte) *subjects.Trajectory {
	return &subjects.Trajectory{Kind: subjects.Train, Group: g, Slot: slot, Environment: "frozenlake", Producer: "p1", Tokenizer: tokenizer,
		Status: subjects.Succeeded, Reward: float64(slot), Token: subjects.LeaseToken(key, subjects.Train, g, slot, 0),
		Segments: []subjects.Segment{{Parent: -1, Tokens: []int32{1, 2, 3, int32(slot)}, Logprobs: []float32{-1, -2}, //nolint:gosec // small
			Versions: []subjects.VersionSpan{{Start: 2, End: 4}}, LossMask: []subjects.Span{{Start: 2, End: 4}}}}}
}

// TestCopyRun_HasItsDeadLetters: under their numbers, about the copy, and what
// was dropped from them stays dropped.
func TestCopyRun_HasItsDeadLetters(t *testing.T) {
	s := recordRun(t, "lake", 1)
	conn, done, err := s.open(t.Context(), "lake")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		hdr := nats.Header{subjects.HeaderReason: {"no trajectory"}, subjects.HeaderSource: {subjects.Run("lake").StreamName(subjects.Rollouts)}, subjects.HeaderSequence: {"1"}}
		if _, err := bus.Send(t.Context(), conn, subjects.Run("lake").DeadLetterSubject("inspect"), fmt.Sprint(i), hdr, []byte("body")); err != nil {
			t.Fatal(err)
		}
	}
	done()
	if _, err := DropLetters(t.Context(), s, "lake", LetterFilter{Numbers: []uint64{2}}); err != nil {
		t.Fatal(err)
	}
	if _, err := CopyRun(t.Context(), s, "lake", "copy", 0); err != nil {
		t.Fatal(err)
	}
	want, err := DeadLetters(t.Context(), s, "lake", LetterFilter{Dropped: true})
	if err != nil || len(want) != 3 {
		t.Fatalf("%+v, %v", want, err)
	}
	have, err := DeadLetters(t.Context(), s, "copy", LetterFilter{Dropped: true})
	for i := range want {
		want[i].Source, want[i].At = subjects.Run("copy").StreamName(subjects.Rollouts), time.Time{}
	}
	for i := range have {
		have[i].At = time.Time{}
	}
	if err != nil || !reflect.DeepEqual(have, want) {
		t.Errorf("%v:\n%+v\nwant\n%+v", err, have, want)
	}
}

// TestCopyRun_PassesTheAudit: all of it but that the ledger follows from the log,
// and shows what the trainer said.
func TestCopyRun_PassesTheAudit(t *testing.T) {
	s := Source{Root: t.TempDir(), Log: zerolog.Nop()}
	conn, stop, err := openStopped(t.Context(), runDir(filepath.Join(s.Root, "made")), bus.Options{Log: s.Log})
	if err != nil {
		t.Fatal(err)
	}
	made, err := synth.Write(t.Context(), conn, synth.Options{Run: "made", Trajectories: 2000})
	stop()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CopyRun(t.Context(), s, "made", "copy", 0); err != nil {
		t.Fatal(err)
	}
	a, err := Audit(t.Context(), s, "copy", audit.Options{})
	if err != nil || !strings.Contains(strings.Join(a.Notes, " "), "in run made: audit that one") {
		t.Errorf("%+v, %v", a, err)
	}
	if sum, err := ShowRun(t.Context(), s, "copy"); err != nil || sum.Steps != int64(made.Steps) {
		t.Errorf("shows %+v of %+v, %v", sum, made, err)
	}
}

func TestCopyRun_IsTheRun(t *testing.T) {
	s := recordRun(t, "lake", 3)
	original, err := Replay(t.Context(), s, "lake", ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := CopyRun(t.Context(), s, "lake", "copy", 0)
	if err != nil || c.Sum != original.Sum || c.Trajectories != 12 || c.Step != 3 {
		t.Errorf("copied %+v of %+v: %v", c, original, err)
	}
	if d, err := Diff(t.Context(), s, "lake", "copy"); err != nil || !d.Same || d.Ledgers[1].Steps != 3 {
		t.Errorf("the copy is another run: %+v, %v", d, err)
	}
	if c, err = CopyRun(t.Context(), s, "lake", "start", 2); err != nil || c.Step != 2 || c.Trajectories != 8 {
		t.Errorf("copied %+v: %v", c, err)
	}
	if _, err := CopyRun(t.Context(), s, "lake", "copy", 0); !errors.Is(err, ErrRunExists) {
		t.Errorf("copies over another run: %v", err)
	}
	if _, err := CopyRun(t.Context(), s, "lake", "more", 9); err == nil || !strings.Contains(err.Error(), "no batch of step 9") {
		t.Errorf("says %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.Root, "more")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left a folder: %v", err)
	}
}

// TestRetrain_GivesATrainerTheSameBatches: twice, byte for byte.
func TestRetrain_GivesATrainerTheSameBatches(t *testing.T) {
	s := recordRun(t, "lake", 3)
	var seen []string
	for range 2 {
		ctx := limited(t)
		ready, done := make(chan string, 1), make(chan error, 1)
		steps := 0
		go func() {
			last, err := Retrain(ctx, s, "lake", RetrainOptions{Until: 2, Ready: func(a string) { ready <- a }, Each: func(*subjects.CommitEvent) { steps++ }})
			if err == nil && (last != 2 || steps != 2) {
				err = fmt.Errorf("trained %d steps, said %d", last, steps)
			}
			done <- err
		}()
		var address string
		select {
		case address = <-ready:
		case err := <-done:
			t.Fatal(err)
		}
		c := dial(ctx, t, address)
		var all strings.Builder
		for range 2 {
			b, data, err := c.Next()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&all, "%d %d %x\n", b.Step, b.Rows, data)
			if err := errors.Join(c.Release(b), c.Commit(feed.Commit{Step: b.Step})); err != nil {
				t.Fatal(err)
			}
		}
		var end *feed.EndError
		if _, _, err := c.Next(); !errors.As(err, &end) {
			t.Errorf("%v, want the end", err)
		}
		if err := c.Close("done"); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		seen = append(seen, all.String())
	}
	if seen[0] != seen[1] {
		t.Error("the second time it is another batch")
	}
}
