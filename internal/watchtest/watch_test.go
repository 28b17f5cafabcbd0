package watchtest

import (
	"context"
	"io"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/consumers/board"
	"github.com/headrace/headrace/consumers/board/tap"
	"github.com/headrace/headrace/consumers/export"
	"github.com/headrace/headrace/consumers/replay"
	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/metrics"
	"github.com/headrace/headrace/internal/regroup"
	"github.com/headrace/headrace/subjects"
)

// looks counts what the readers read.
type looks struct{ tapped, replayed, exported atomic.Int64 }

// readers are all that look at a run.
func (l *looks) readers(conn *bus.Conn, run subjects.Run) []func(context.Context) error {
	again := func(read func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			for ctx.Err() == nil {
				if err := read(ctx); err != nil {
					return err
				}
			}
			return nil
		}
	}
	header, _ := export.HeaderOf(&subjects.RunRecord{V: 1, Run: run, Schema: subjects.SchemaVersion, Recipe: []byte("{}")})
	return []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := replay.Tail(ctx, conn, run, replay.Filter{}, func(*replay.Record) error { l.tapped.Add(1); return nil })
			return err
		},
		again(func(ctx context.Context) error {
			return replay.Read(ctx, conn, run, replay.Filter{}, func(*replay.Record) error { l.replayed.Add(1); return nil })
		}),
		again(func(ctx context.Context) error {
			w, err := export.NewJSONL(io.Discard, header)
			if err != nil {
				return err
			}
			c, err := export.Read(ctx, conn, run, export.Filter{}, w)
			l.exported.Add(int64(c.Trajectories)) //nolint:gosec // small
			return err
		}),
		func(ctx context.Context) error { return tap.Follow(ctx, conn, run, board.New(board.Config{}), nil) },
		func(ctx context.Context) error {
			return metrics.Follow(ctx, conn, run, metrics.NewLog([]string{"frozenlake"}, steps), metrics.NewReports())
		},
	}
}

// TestWatched_TheLedgerIsTheSame: the same batches, the same verdicts, as many
// messages in every stream, and an audit that passes; nothing is left behind.
func TestWatched_TheLedgerIsTheSame(t *testing.T) {
	alone := newWorld(t, "run")
	alone.play()
	watched, l := newWorld(t, "run"), &looks{}
	watched.play(l.readers(watched.look, watched.run)...)
	if l.tapped.Load() == 0 || l.replayed.Load() <= l.tapped.Load() || l.exported.Load() == 0 {
		t.Errorf("tapped %d, replayed %d, exported %d", l.tapped.Load(), l.replayed.Load(), l.exported.Load())
	}
	d, err := regroup.Diff(t.Context(), regroup.Side{Conn: alone.conn, Run: alone.run}, regroup.Side{Conn: watched.conn, Run: watched.run})
	if err != nil || !d.Same || d.Ledgers[1].Steps != steps || !maps.Equal(d.Ledgers[0].Groups, d.Ledgers[1].Groups) {
		t.Errorf("watched, the run is another: %+v, %v", d, err)
	}
	for _, s := range subjects.Streams() {
		a, b := alone.size(s), watched.size(s)
		if s != subjects.Telemetry && s != subjects.Ledger && a != b { // entries and gauges depend on the clock
			t.Errorf("%s has %d messages, watched %d", s, a, b)
		}
		if n := watched.consumers(s); s != subjects.Tasks && n > 0 {
			t.Errorf("%d consumers are left on %s", n, s)
		}
	}
	watched.audit()
}

func (w *world) size(s subjects.Stream) uint64 {
	state, err := bus.StreamState(w.Context(), w.conn, w.run, s)
	w.must(err)
	return state.LastSeq
}

// consumers are those of a stream that could hold something back: that are there
// for good, or are to be acknowledged.
func (w *world) consumers(s subjects.Stream) int {
	stream, err := w.conn.JS().Stream(w.Context(), w.run.StreamName(s))
	w.must(err)
	n := 0
	list := stream.ListConsumers(w.Context())
	for c := range list.Info() {
		if c.Config.Durable != "" || c.Config.AckPolicy != jetstream.AckNonePolicy {
			n++
		}
	}
	w.must(list.Err())
	return n
}

func (w *world) audit() {
	key, err := bus.LeaseKey(w.Context(), w.conn, w.run)
	w.must(err)
	r, err := audit.Run(w.Context(), w.conn, w.run, audit.Options{Policy: &audit.Policy{Grouper: w.cfg, Supply: grouper.Supply{Train: []uint64{0}}, Vocab: vocab, Key: key}})
	w.must(err)
	if !r.OK {
		w.Errorf("audit: %+v", r)
	}
}
