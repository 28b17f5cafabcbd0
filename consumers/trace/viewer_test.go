package trace

import (
	"io"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// TestWrite_NeedsAViewersRightsAlone: who asks for messages instead of having
// consumers.
func TestWrite_NeedsAViewersRightsAlone(t *testing.T) {
	secure := natstest.NewSecure(t, run)
	w := &world{TB: t, conn: secure.Connect(t, "admin")}
	w.must(bus.EnsureStreams(t.Context(), w.conn, run, subjects.StreamOptions{}))
	w.story()
	viewer := secure.Connect(t, "viewer")
	r, err := Write(t.Context(), viewer, run, Options{First: 1, Final: 2}, io.Discard)
	w.must(err)
	if r.Trajectories != 6 || r.Steps != 2 || r.Spans != 20 {
		t.Errorf("%+v", r)
	}
	if seq, err := bus.SeqAt(t.Context(), viewer, run, subjects.Telemetry, time.Unix(0, t0)); seq != 1 || err != nil {
		t.Errorf("a viewer looks for a time: %d, %v", seq, err)
	}
}
