package replay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

func TestRead_TwiceIsTheSame(t *testing.T) {
	w := newWorld(t, natstest.Start(t, bus.ServerOptions{Sync: "10m", MaxPayload: 64 << 10}), "twice")
	w.play(0, 12)
	first, sum := w.read(replay.Filter{})
	_, again := w.read(replay.Filter{})
	if sum != again || len(first) != 12*groupSize {
		t.Errorf("%d trajectories with the digest %s, then %s", len(first), sum, again)
	}
	for i, r := range first {
		if i > 0 && (r.Seq < first[i-1].Seq || r.Seq == first[i-1].Seq && r.Index != first[i-1].Index+1) {
			t.Errorf("%d.%d comes after %d.%d", r.Seq, r.Index, first[i-1].Seq, first[i-1].Index)
		}
		if b, err := subjects.DecodeTrajectory(r.Body); r.Err != nil || err != nil || b.ID() != r.Entry.ID() {
			t.Errorf("body of %s: %v, %v", r.Entry.ID(), r.Err, err)
		}
	}
	other := newWorld(t, natstest.Loopback(t), "other")
	other.play(0, 13)
	if _, sum := other.read(replay.Filter{}); sum == again {
		t.Error("a longer run has the same digest")
	}
}

func TestRead_EachFieldChooses(t *testing.T) {
	w := newWorld(t, natstest.Loopback(t), "choose")
	w.play(0, 12)
	all, _ := w.read(replay.Filter{})
	mid := all[20]
	for _, c := range []struct {
		name string
		f    replay.Filter
		fits func(*replay.Record) bool
	}{
		{"step", replay.Filter{Steps: replay.Steps{From: 2, To: 3}}, func(r *replay.Record) bool { return r.Entry.Group == "t3" || r.Entry.Group == "t6" }},
		{"group", replay.Filter{Groups: []subjects.GroupID{"t2", "t7"}}, func(r *replay.Record) bool { return r.Entry.Group == "t2" || r.Entry.Group == "t7" }},
		{"producer", replay.Filter{Producers: []string{"p2"}}, func(r *replay.Record) bool { return r.Producer == "p2" }},
		{"environment", replay.Filter{Environments: []string{"maze"}}, func(r *replay.Record) bool { return r.Entry.Environment == "maze" }},
		{"status", replay.Filter{Statuses: []subjects.Status{subjects.Failed}}, func(r *replay.Record) bool { return r.Entry.Status == subjects.Failed }},
		{"since", replay.Filter{Since: mid.Time}, func(r *replay.Record) bool { return !r.Time.Before(mid.Time) }},
		{"until", replay.Filter{Until: mid.Time}, func(r *replay.Record) bool { return r.Time.Before(mid.Time) }},
		{"sequence", replay.Filter{First: 3, Last: mid.Seq}, func(r *replay.Record) bool { return r.Seq >= 3 && r.Seq <= mid.Seq }},
		{"both", replay.Filter{Producers: []string{"p1"}, Groups: []subjects.GroupID{"t2", "t3"}}, func(r *replay.Record) bool { return r.Entry.Group == "t2" }},
	} {
		var want, have []string
		for _, r := range all {
			if c.fits(r) {
				want = append(want, r.Entry.ID())
			}
		}
		got, _ := w.read(c.f)
		for _, r := range got {
			have = append(have, r.Entry.ID())
		}
		if len(want) == 0 || strings.Join(want, " ") != strings.Join(have, " ") {
			t.Errorf("%s chooses %v, want %v", c.name, have, want)
		}
	}
}

// TestRead_InOnePassOrTwoIsTheSame: a filter that chooses by headers reads them
// first, one that takes all does not; a body that lost a part, and a message whose
// bytes are damaged, are unreadable in both.
func TestRead_InOnePassOrTwoIsTheSame(t *testing.T) {
	w := newWorld(t, natstest.Start(t, bus.ServerOptions{Sync: "10m", MaxPayload: 64 << 10}), "passes")
	w.play(0, 12)
	all, _ := w.read(replay.Filter{})
	stream, err := w.conn.JS().Stream(t.Context(), w.run.StreamName(subjects.Rollouts))
	w.must(err)
	hdr := all[0].Entry
	hdr.Group, hdr.Checksum = "t99", hdr.Checksum+1
	_, err = bus.Send(t.Context(), w.conn, w.run.RolloutSubject("p1"), "damaged", map[string][]string{subjects.HeaderIndex: {hdr.String()}, subjects.HeaderProducer: {"p1"}, subjects.HeaderCounter: {"99"}}, all[0].Body)
	w.must(err)
	for _, r := range all {
		if r.Entry.Group == "t4" { // in parts, the last of which is r.Seq
			w.must(stream.DeleteMsg(t.Context(), r.Seq-1))
			break
		}
	}
	for _, f := range []replay.Filter{{}, {First: 3, Last: all[30].Seq}, {Until: all[20].Time}, {Since: all[20].Time}} {
		one, sum := w.read(f)
		f.Producers = []string{"p1", "p2"}
		two, again := w.read(f)
		if sum != again || len(one) != len(two) || len(one) == 0 {
			t.Fatalf("%+v: %d in one pass, %d in two: %s, %s", f, len(one), len(two), sum, again)
		}
		unreadable := 0
		for i := range one {
			if (one[i].Err == nil) != (two[i].Err == nil) || one[i].Address != two[i].Address || !one[i].Time.Equal(two[i].Time) {
				t.Errorf("%+v: %+v in one pass, %+v in two", f, one[i], two[i])
			}
			if one[i].Err != nil {
				unreadable++
			}
		}
		if f.Last == 0 && f.Until.IsZero() && unreadable != 2 && f.Since.IsZero() {
			t.Errorf("%d are unreadable, want 2", unreadable)
		}
	}
}

func TestRead_StepsThatAreNotThere(t *testing.T) {
	w := newWorld(t, natstest.Loopback(t), "none")
	w.play(0, 4)
	err := replay.Read(t.Context(), w.conn, w.run, replay.Filter{Steps: replay.Steps{From: 9, To: 9}}, nil)
	if err == nil || !strings.Contains(err.Error(), "its last one is of step 2") {
		t.Errorf("says %v", err)
	}
	first, err := replay.UntilStep(t.Context(), w.conn, w.run, 1)
	second, err2 := replay.UntilStep(t.Context(), w.conn, w.run, 2)
	state, err3 := bus.StreamState(t.Context(), w.conn, w.run, subjects.Rollouts)
	if err := errors.Join(err, err2, err3); err != nil || first >= second || second != state.LastSeq {
		t.Errorf("step 1 was cut at %d, step 2 at %d of %d: %v", first, second, state.LastSeq, err)
	}
}

func TestFilter_RefusesWhatChoosesNothing(t *testing.T) {
	for _, f := range []replay.Filter{
		{Statuses: []subjects.Status{"fine"}}, {Steps: replay.Steps{From: 3, To: 2}}, {First: 3, Last: 2}, {Since: time.Unix(2, 0), Until: time.Unix(1, 0)},
	} {
		if f.Validate() == nil {
			t.Errorf("takes %+v", f)
		}
	}
}

// TestTail_CostsTheRunNothing: it shows what comes and leaves no trace.
func TestTail_CostsTheRunNothing(t *testing.T) {
	for _, f := range []replay.Filter{{Producers: []string{"p2"}}, {Steps: replay.Steps{From: 2, To: 3}}} {
		w := newWorld(t, natstest.Loopback(t), "tail")
		w.play(0, 2)
		ctx, cancel := context.WithCancel(t.Context())
		seen := make(chan *replay.Record, 100)
		done := make(chan error, 1)
		go func() {
			_, err := replay.Tail(ctx, w.conn, w.run, f, func(r *replay.Record) error { seen <- r; return nil })
			done <- err
		}()
		watched(t, w)
		w.play(2, 10)
		want := 0
		_, sum := w.read(replay.Filter{})
		now, _ := w.read(f)
		for _, r := range now {
			if r.Entry.Group != "t1" { // before it
				want++
			}
		}
		for range want {
			if r := <-seen; !f.Match(r) || r.Body != nil {
				t.Errorf("shows %s of %s, step %d", r.Entry.ID(), r.Producer, r.Step)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || len(seen) > 0 {
			t.Errorf("ended with %v, %d too many", err, len(seen))
		}
		if _, again := w.read(replay.Filter{}); again != sum {
			t.Error("the run is another one")
		}
	}
}

// TestTail_EndsWithTheRun: with all that came before the end, and at once where
// the run has ended already.
func TestTail_EndsWithTheRun(t *testing.T) {
	for _, f := range []replay.Filter{{}, {Producers: []string{"p2"}}, {Steps: replay.Steps{From: 2, To: 99}}} {
		w := newWorld(t, natstest.Loopback(t), "tail-end")
		w.must(bus.CreateRun(t.Context(), w.conn, &subjects.RunRecord{V: 1, Run: w.run, Schema: subjects.SchemaVersion, Recipe: []byte("{}")}))
		seen := map[string]bool{}
		end, done := "", make(chan error, 1)
		go func() {
			var err error
			end, err = replay.Tail(t.Context(), w.conn, w.run, f, func(r *replay.Record) error { seen[r.Entry.ID()] = true; return nil })
			done <- err
		}()
		watched(t, w)
		w.play(0, 10)
		w.must(bus.EndRun(t.Context(), w.conn, w.run, subjects.EndComplete))
		if err := <-done; err != nil || end != subjects.EndComplete {
			t.Fatalf("ended with %q, %v", end, err)
		}
		if all, _ := w.read(f); len(all) == 0 || len(seen) != len(all) {
			t.Errorf("showed %d of %d", len(seen), len(all))
		}
		end, err := replay.Tail(t.Context(), w.conn, w.run, f, func(*replay.Record) error { return errors.New("nothing comes") })
		if err != nil || end != subjects.EndComplete {
			t.Errorf("of an ended run: %q, %v", end, err)
		}
	}
}

// watched returns when a consumer is on one of the run's streams.
func watched(t *testing.T, w *world) {
	for t.Context().Err() == nil {
		for _, s := range []subjects.Stream{subjects.Rollouts, subjects.Ledger} {
			state, err := bus.StreamState(t.Context(), w.conn, w.run, s)
			w.must(err)
			if state.Consumers > 0 {
				return
			}
		}
	}
}

func TestPace_KeepsTheDistances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			speed float64
			want  time.Duration
		}{{1, time.Minute}, {10, 6 * time.Second}, {0, 0}} {
			began, p := time.Now(), replay.Pace{Speed: c.speed}
			for i := range 3 {
				if err := p.Wait(t.Context(), time.Unix(int64(i)*30, 0)); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("at %gx a minute takes %v", c.speed, took)
			}
		}
	})
}
