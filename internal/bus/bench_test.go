package bus_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// BenchmarkPublisher is the publish path of one process, server included:
// thousands of episodes that end at the same time.
func BenchmarkPublisher(b *testing.B) {
	for _, tokens := range []int{512, 2048} {
		for _, sync := range []string{"1s", "always"} {
			b.Run(fmt.Sprintf("tokens=%d/sync=%s", tokens, sync), func(b *testing.B) {
				c := natstest.Connect(b, natstest.Start(b, bus.ServerOptions{Port: -1, Sync: sync}))
				ensureRun(b, c)
				p := publisher(b, c, bus.PublisherConfig{})
				var n atomic.Int64
				b.ReportAllocs()
				b.SetParallelism(128)
				b.RunParallel(func(pb *testing.PB) {
					t := trajectory("t1", 0, tokens)
					for pb.Next() {
						t.Group = subjects.TrainGroup(uint64(n.Add(1)))
						if _, err := p.Publish(b.Context(), t); err != nil {
							b.Error(err)
							return
						}
					}
				})
				s := p.Stats()
				b.ReportMetric(float64(s.Trajectories)/float64(s.Bundles), "trajectories/message")
				b.ReportMetric(float64(s.Trajectories)*float64(tokens)/b.Elapsed().Seconds()/1e6, "Mtok/s")
			})
		}
	}
}

// prepared is a stream of n bundles of 256 KiB.
func prepared(b *testing.B, n int) *bus.Conn {
	c := natstest.Connect(b, natstest.Start(b, bus.ServerOptions{Port: -1, Sync: "10m"}))
	ensureRun(b, c)
	fill(b, c, 1, n, 256<<10)
	return c
}

func BenchmarkFollowHeaders(b *testing.B) {
	c := natstest.Connect(b, natstest.InProcess(b))
	ensureRun(b, c)
	fill(b, c, 1, 20000, 100)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		err := bus.FollowHeaders(b.Context(), c, run, 1, func(in []bus.HeaderMsg) error {
			if done += len(in); done >= b.N || in[len(in)-1].Seq == 20000 {
				return errDone
			}
			return nil
		})
		if !errors.Is(err, errDone) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

func BenchmarkFetch(b *testing.B) {
	const n = 1000
	c := prepared(b, n)
	f := bus.NewFetcher(c, rollouts, bus.FetchConfig{})
	b.SetBytes(256 << 10)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		var want []bus.SeqSize
		for i := range min(64, b.N-done) {
			want = append(want, bus.SeqSize{Seq: uint64((done+i)*7919%n + 1), Size: 256 << 10})
		}
		if err := f.Fetch(b.Context(), want, func(uint64, nats.Header, []byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
		done += len(want)
	}
}

func BenchmarkFollow(b *testing.B) {
	const n = 1000
	c := prepared(b, n)
	b.SetBytes(256 << 10)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		err := bus.Follow(b.Context(), c, rollouts, "", 1, func(m *bus.Msg) error {
			if done++; done == b.N || m.Seq == n {
				return errDone
			}
			return nil
		})
		if !errors.Is(err, errDone) {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	c := natstest.Connect(b, natstest.InProcess(b))
	ensureRun(b, c)
	last := uint64(0)
	data := make([]byte, 2048)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		seq, err := bus.Append(b.Context(), c, run.LedgerSubject(), nil, data, last)
		if err != nil {
			b.Fatal(err)
		}
		last = seq
	}
}
