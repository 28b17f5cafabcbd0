package watchtest

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/consumers/board/tap"
	"github.com/headrace/headrace/consumers/export"
	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/consumers/trace"
	"github.com/headrace/headrace/consumers/ui/index"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/internal/regroup"
	"github.com/headrace/headrace/internal/synth"
	"github.com/headrace/headrace/subjects"
)

// TestReaders_EndWhereTheLastMessagesAreLost: a stream counts messages that the
// server has lost, and nobody waits for them.
func TestReaders_EndWhereTheLastMessagesAreLost(t *testing.T) {
	conn, run := natstest.Connect(t, natstest.InProcess(t)), subjects.Run("lost")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := synth.Write(ctx, conn, synth.Options{Run: run, Trajectories: 400})
	must(err)
	for _, s := range []subjects.Stream{subjects.Rollouts, subjects.Weights} {
		state, err := bus.StreamState(ctx, conn, run, s)
		must(err)
		stream, err := conn.JS().Stream(ctx, run.StreamName(s))
		must(err)
		for seq := state.LastSeq; seq > state.LastSeq-3; seq-- {
			must(stream.DeleteMsg(ctx, seq))
		}
	}
	count := func(n *int) func(*replay.Record) error { return func(*replay.Record) error { *n++; return nil } }
	all, chosen, messages := 0, 0, 0
	must(replay.Read(ctx, conn, run, replay.Filter{}, count(&all)))
	must(replay.Read(ctx, conn, run, replay.Filter{Statuses: []subjects.Status{subjects.Succeeded}}, count(&chosen)))
	must(show.Each(ctx, conn, run, subjects.Weights, func(*bus.Msg) { messages++ }))
	if all == 0 || chosen == 0 || messages == 0 {
		t.Errorf("%d trajectories, %d succeeded, %d events", all, chosen, messages)
	}
	if _, err := show.Locate(ctx, conn, run, "t999999/0/0"); err == nil {
		t.Error("found what never was")
	}
	header, err := export.HeaderOf(&subjects.RunRecord{V: 1, Run: run, Schema: subjects.SchemaVersion, Recipe: []byte("{}")})
	must(err)
	lines, err := export.NewJSONL(io.Discard, header)
	must(err)
	_, err = export.Read(ctx, conn, run, export.Filter{}, lines)
	must(err)
	_, err = trace.Write(ctx, conn, run, trace.Options{Last: time.Hour}, io.Discard)
	must(err)
	must(tap.Read(ctx, conn, run, board.New(board.Config{})))
	_, err = regroup.Diff(ctx, regroup.Side{Conn: conn, Run: run}, regroup.Side{Conn: conn, Run: run})
	must(err)
	listed, stop := context.WithCancel(ctx)
	_ = index.New(index.Config{Run: run}).Follow(listed, conn, func() {}, stop)
	must(ctx.Err())
}
