package tap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const run = subjects.Run("lake-1")

// world is a run of some steps on a real server.
type world struct {
	testing.TB
	conn *bus.Conn
}

func newWorld(t testing.TB) *world { return fill(t, natstest.Connect(t, natstest.Loopback(t))) }

func fill(t testing.TB, conn *bus.Conn) *world {
	w := &world{TB: t, conn: conn}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{}))
	recipe := `{"name":"lake","environment":{"name":"frozenlake"},"trainer":{"steps":9},"grouper":{"max_staleness":2}}`
	w.must(bus.CreateRun(t.Context(), w.conn, &subjects.RunRecord{V: 1, Run: run, Created: 1e18, Schema: subjects.SchemaVersion, Recipe: json.RawMessage(recipe)}))
	w.must(bus.PutEngine(t.Context(), w.conn, run, &subjects.EngineRecord{Engine: "e0", URL: "http://e0", Version: 1, Ready: true}))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) send(subject string, message any) {
	w.Helper()
	data, err := subjects.EncodeMessage(message)
	w.must(err)
	w.raw(subject, data)
}

func (w *world) raw(subject string, data []byte) {
	w.Helper()
	_, err := w.conn.NC().RequestWithContext(w.Context(), subject, data)
	w.must(err)
}

// step is the ledger entry and the commit of a step, and what roles say of it.
func (w *world) step(n int64) {
	w.Helper()
	now := time.Now().UnixNano()
	w.send(run.LedgerSubject(), &subjects.Entry{At: now, Batches: []subjects.Batch{{Step: subjects.Step(n), Rows: 8, Tokens: 100, RewardMean: .5}}})
	w.send(run.WeightsSubject(subjects.EventCommit), &subjects.CommitEvent{Step: subjects.Step(n), Incarnation: 1, TrainSeconds: .1, WaitSeconds: .1, At: now})
	w.send(run.TelemetrySubject("grouper", "g"), &subjects.Gauges{Role: "grouper", Instance: "g", At: now, Values: map[string]float64{"produced": float64(8 * n), "trained": float64(8 * n)}})
	b := subjects.SpanBatch{Role: "trainer", Instance: "rank0", At: now}
	b.SetSpans([]subjects.TimeSpan{{Name: "publish weights", Start: now - 1e8, Duration: 1e8}})
	w.send(run.SpanSubject("trainer", "rank0"), &b)
}

// garbage is what any producer may write.
func (w *world) garbage() {
	for _, subject := range []string{run.LedgerSubject(), run.WeightsSubject(subjects.EventCommit), run.AckSubject("e0"), run.TelemetrySubject("engine", "e0"), run.SpanSubject("trainer", "rank0")} {
		w.raw(subject, []byte{0xc1, 0xff})
	}
}

// await looks at the board until it is as wanted.
func (w *world) await(b *board.Board, what string, ok func(*board.State) bool) board.State {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	for {
		s := b.State(time.Now())
		if ok(&s) {
			return s
		}
		select {
		case <-ctx.Done():
			w.Fatalf("not %s: %+v", what, s)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestFollow_ShowsWhatWasAndWhatComes(t *testing.T) {
	w := newWorld(t)
	for n := range int64(3) {
		w.step(n + 1)
		w.garbage()
	}
	b := board.New(board.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	caughtUp, done := make(chan struct{}), make(chan error, 1)
	var stood atomic.Int32
	go func() {
		done <- FollowBehind(ctx, w.conn, run, b, func() { close(caughtUp) }, func() { stood.Add(1) })
	}()
	<-caughtUp
	if n := stood.Load(); n < 12 {
		t.Errorf("stood back %d times before 12 messages", n)
	}
	s := b.State(time.Now())
	if s.Run != run || s.Recipe != "lake" || s.Environments[0] != "frozenlake" || s.Step != (board.StepState{Committed: 3, Cut: 3, Max: 9}) || s.StalenessMaxAllowed != 2 ||
		s.Trajectories.Trained != 24 || !s.Live || s.Trainer.Seconds.Publish < .29 {
		t.Errorf("shows %+v", s)
	}
	w.step(4)
	w.await(b, "at step 4, with an engine and sizes", func(s *board.State) bool {
		return s.Step.Committed == 4 && s.Trajectories.Trained == 32 && len(s.Engines) == 1 && s.Engines[0].Ready && s.Queues[0].Bytes.Known()
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestFollow_NeedsAViewersRightsAlone: who asks for messages instead of having
// consumers.
func TestFollow_NeedsAViewersRightsAlone(t *testing.T) {
	secure := natstest.NewSecure(t, run)
	w := fill(t, secure.Connect(t, "admin"))
	w.step(1)
	ctx, cancel := context.WithCancel(t.Context())
	b, caughtUp, done := board.New(board.Config{}), make(chan struct{}), make(chan error, 1)
	viewer := secure.Connect(t, "viewer")
	go func() { done <- Follow(ctx, viewer, run, b, func() { close(caughtUp) }) }()
	<-caughtUp
	if s := b.State(time.Now()); s.Recipe != "lake" || s.Step.Committed != 1 || s.Trajectories.Trained != 8 || s.Trainer.Seconds.Publish < .09 {
		t.Errorf("shows %+v", s)
	}
	w.step(2)
	w.await(b, "at step 2, with an engine and sizes", func(s *board.State) bool {
		return s.Step.Committed == 2 && s.Trajectories.Trained == 16 && len(s.Engines) == 1 && s.Engines[0].Ready && s.Queues[0].Bytes.Known()
	})
	cancel()
	<-done
}

func TestFollow_CatchesUpWithARunThatSaysNothing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	caughtUp, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- Follow(ctx, w.conn, run, board.New(board.Config{}), func() { close(caughtUp) }) }()
	<-caughtUp
	cancel()
	<-done
}

// TestRead_IsWhatFollowShows: the same, of what is there; and the run cannot tell.
func TestRead_IsWhatFollowShows(t *testing.T) {
	w := newWorld(t)
	for n := range int64(5) {
		w.step(n + 1)
	}
	before := w.streams()
	b := board.New(board.Config{})
	w.must(Read(t.Context(), w.conn, run, b))
	if s := b.State(time.Now()); s.Step.Committed != 5 || len(s.Engines) != 1 || b.Steps(0).Step[4] != 5 {
		t.Errorf("shows %+v", s.Step)
	}
	if after := w.streams(); !reflect.DeepEqual(before, after) {
		t.Errorf("the streams were %v, are %v", before, after)
	}
}

// streams is what each stream of the run holds.
func (w *world) streams() map[subjects.Stream]string {
	w.Helper()
	out := map[subjects.Stream]string{}
	for _, s := range subjects.Streams() {
		state, err := bus.StreamState(w.Context(), w.conn, run, s)
		w.must(err)
		out[s] = fmt.Sprintf("%d messages, %d bytes, up to %d", state.Msgs, state.Bytes, state.LastSeq)
	}
	return out
}

// TestRead_SaysWhichRunIsMissing: an error, not an empty picture.
func TestRead_SaysWhichRunIsMissing(t *testing.T) {
	conn := natstest.Connect(t, natstest.Loopback(t))
	if err := Read(t.Context(), conn, "nobody", board.New(board.Config{})); !errors.Is(err, bus.ErrNoStream) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("says %v", err)
	}
}
