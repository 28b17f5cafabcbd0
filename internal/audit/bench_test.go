package audit_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// BenchmarkRun compares an audit with reading the same log and doing nothing.
func BenchmarkRun(b *testing.B) {
	for _, c := range []struct {
		name   string
		tokens int32
		steps  int64
	}{{"300 B bodies", 30, 100}, {"32 kB bodies", 4000, 40}} {
		cfg := policy(c.steps)
		cfg.GroupsPerBatch, cfg.Evaluation.Every = 16, 0
		w := newWorld(b, natstest.Loopback(b), "bench", cfg)
		w.tokens = c.tokens
		w.play()
		state, err := bus.StreamState(b.Context(), w.conn, w.run, subjects.Rollouts)
		w.must(err)
		b.Run(c.name+"/follow", func(b *testing.B) {
			defer processor(b, int64(state.Bytes))()
			for b.Loop() {
				err := bus.Follow(b.Context(), w.conn, w.run.StreamName(subjects.Rollouts), "", 1, func(m *bus.Msg) error {
					if m.Seq == state.LastSeq {
						return errAll
					}
					return nil
				})
				if !errors.Is(err, errAll) {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(state.Bytes))
		})
		b.Run(c.name+"/audit", func(b *testing.B) {
			defer processor(b, int64(state.Bytes))()
			for b.Loop() {
				r, err := audit.Run(b.Context(), w.conn, w.run, audit.Options{Policy: w.policy()})
				if err != nil || !r.OK {
					b.Fatal(err, r)
				}
			}
			b.SetBytes(int64(state.Bytes))
			b.ReportMetric(float64(state.Msgs), "msgs")
		})
	}
}

// processor reports bytes a second of processor time, the server's included: on a
// machine that does other things the clock says little.
func processor(b *testing.B, bytes int64) func() {
	used := func() float64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	begun := used()
	return func() { b.ReportMetric(float64(bytes)*float64(b.N)/1e6/(used()-begun), "MB/cpu-s") }
}
