package service_test

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/grouper/service"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

const benchGroups, benchSize = 5000, 8

// published is a run of 40,000 trajectories that nobody has grouped.
func published(b *testing.B) *bus.Conn {
	c := natstest.Connect(b, natstest.InProcess(b))
	if err := bus.EnsureStreams(b.Context(), c, run, subjects.StreamOptions{}); err != nil {
		b.Fatal(err)
	}
	p := bus.NewPublisher(c, bus.PublisherConfig{Run: run, Producer: "p"})
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for g := w; g < benchGroups; g += 64 {
				for s := range subjects.Slot(benchSize) {
					if _, err := p.Publish(b.Context(), trajectory(&subjects.Task{Kind: subjects.Train, Group: subjects.TrainGroup(uint64(g)), Slot: s, Environment: "lake"})); err != nil {
						b.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := p.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkRun_Folds starts a grouper on the log and waits until it has closed
// all groups.
func BenchmarkRun_Folds(b *testing.B) {
	cfg := grouper.Config{Source: grouper.SourceExternal, GroupSize: benchSize, GroupsPerBatch: 8, Steps: benchGroups, Inspect: new(false)}
	var cpu time.Duration
	for range b.N {
		b.StopTimer()
		c := published(b)
		cpu -= used(b)
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		b.StartTimer()
		wg.Go(func() {
			if err := service.Run(ctx, service.Config{Conn: c, Run: run, Grouper: cfg, Writer: "a", Log: zerolog.Nop(), Standby: 20 * time.Millisecond}); err != nil {
				b.Error(err)
			}
		})
		closed, all := 0, errors.New("all")
		err := bus.Follow(ctx, c, run.StreamName(subjects.Ledger), "", 1, func(m *bus.Msg) error {
			var e subjects.Entry
			if err := subjects.DecodeMessage(m.Data, &e); err != nil {
				return err
			}
			if closed += len(e.Verdicts); closed >= benchGroups {
				return all
			}
			return nil
		})
		b.StopTimer()
		cpu += used(b)
		if !errors.Is(err, all) {
			b.Fatal(err, closed)
		}
		cancel()
		wg.Wait()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*benchGroups*benchSize/b.Elapsed().Seconds(), "trajectories/s")
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N)/benchGroups/benchSize, "cpu-ns/trajectory")
}

// used is the processor time of this process: the server's too, and of use on
// a machine that others work on.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
