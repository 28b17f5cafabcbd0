package flowtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// slack is what goes by beside bodies: headers, frames of the protocol, API calls.
const slack = 256 << 10

// TestLimits_AreInTheUnitsTheyAreNamedFor drives every bound that a user or a role
// sets to its limit and measures what is held there: bytes where the name says
// bytes, a count where it says so.
func TestLimits_AreInTheUnitsTheyAreNamedFor(t *testing.T) {
	for name, test := range map[string]func(*world, *tap){
		"BundleBytes": bundleBytes, "BundleCount": bundleCount, "WindowBytes": windowBytes, "HeldBytes": heldBytes,
		"FetchConfig.WindowBytes": fetchWindow, "bodies on their way to a follower": followWindow, "a slice of headers": headerSlice,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, bus.ServerOptions{}, subjects.StreamOptions{RolloutBytes: 256 << 20})
			test(w, newTap(t, w.server))
		})
	}
}

// publishAll publishes n bodies of size bytes at once and waits for all.
func publishAll(w *world, c *bus.Conn, cfg bus.PublisherConfig, n, size int) {
	cfg.Run, cfg.Producer, cfg.Log = run, "p1", zerolog.Nop()
	p := bus.NewPublisher(c, cfg)
	defer p.Close(w.ctx()) //nolint:errcheck // all is acknowledged
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, err := p.PublishEncoded(w.ctx(), entry(i), make([]byte, size)); err != nil {
				w.Error(err)
			}
		})
	}
	all.Wait()
}

// largestBundle is the most bytes, and trajectories, of a message of ROLLOUTS.
func (w *world) largestBundle() (bytes, count int) {
	last := w.messages(subjects.Rollouts)
	err := bus.FollowHeaders(w.ctx(), w.conn, run, 1, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			bytes, count = max(bytes, msgs[i].Size), max(count, len(msgs[i].Header[subjects.HeaderIndex]))
			if msgs[i].Seq == last {
				return errEnough
			}
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		w.Fatal(err)
	}
	return bytes, count
}

func bundleBytes(w *world, _ *tap) {
	const limit, size = 10_000, 1000
	publishAll(w, w.conn, bus.PublisherConfig{BundleBytes: limit, BundleCount: 1000}, 200, size)
	if bytes, n := w.largestBundle(); bytes != limit || n != limit/size {
		w.Errorf("bundles of at most %d bytes hold up to %d, in %d trajectories", limit, bytes, n)
	}
}

func bundleCount(w *world, _ *tap) {
	publishAll(w, w.conn, bus.PublisherConfig{BundleCount: 7}, 200, 100)
	if _, n := w.largestBundle(); n != 7 {
		w.Errorf("bundles of at most 7 trajectories hold up to %d", n)
	}
}

// blocked publishes more than a publisher may hold over a connection whose
// answers are held back, and returns its statistics once nothing moves on.
func blocked(w *world, tap *tap, cfg bus.PublisherConfig, n, size int, full func(bus.PublisherStats, int64) bool) {
	cfg.Run, cfg.Producer, cfg.Log = run, "p1", zerolog.Nop()
	c := tap.connect(w, zerolog.Nop())
	tap.hold(true)
	before := tap.up.Load()
	p := bus.NewPublisher(c, cfg)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, err := p.PublishEncoded(w.ctx(), entry(i), make([]byte, size)); err != nil {
				w.Error(err)
			}
		})
	}
	w.until("full publisher", func() bool { return full(p.Stats(), tap.up.Load()-before) })
	tap.hold(false)
	all.Wait()
	if err := p.Close(w.ctx()); err != nil {
		w.Error(err)
	}
	if s := p.Stats(); s.Trajectories != uint64(n) || s.Waiting != 0 || s.PendingBytes != 0 {
		w.Errorf("afterwards %+v", s)
	}
}

func windowBytes(w *world, tap *tap) {
	const limit, size = 1 << 20, 64 << 10
	most := int64(0)
	blocked(w, tap, bus.PublisherConfig{WindowBytes: limit, BundleBytes: size}, 64, size, func(s bus.PublisherStats, sent int64) bool {
		most = max(most, sent)
		return s.Waiting == 64 && sent >= limit
	})
	if most > limit+slack {
		w.Errorf("%d bytes sent without an answer, of at most %d", most, limit)
	}
}

func heldBytes(w *world, tap *tap) {
	const limit, size = 1 << 20, 64 << 10
	most := 0
	blocked(w, tap, bus.PublisherConfig{HeldBytes: limit}, 200, size, func(s bus.PublisherStats, _ int64) bool {
		most = max(most, s.PendingBytes)
		return s.Waiting == 200
	})
	if most != limit {
		w.Errorf("%d bytes held of at most %d", most, limit)
	}
}

// stored fills ROLLOUTS with n messages of size bytes.
func (w *world) stored(n, size int) {
	publishAll(w, w.conn, bus.PublisherConfig{BundleBytes: size}, n, size)
}

// stalled runs read in a connection of its own, which must then wait for its
// handler, and returns the bytes that came for it meanwhile.
func stalled(w *world, tap *tap, read func(ctx context.Context, c *bus.Conn, wait func()) error, enough int64) int64 {
	c := tap.connect(w, zerolog.Nop())
	before := tap.down.Load()
	ctx, cancel := context.WithCancel(w.ctx())
	done := make(chan error, 1)
	go func() { done <- read(ctx, c, func() { <-ctx.Done() }) }()
	came := int64(0)
	w.until("as much as may be on its way", func() bool { came = tap.down.Load() - before; return came >= enough })
	// Nothing tells that no more comes; another round trip on the same
	// connection is behind all that was asked for.
	if _, err := bus.StreamState(w.ctx(), c, run, subjects.Rollouts); err != nil {
		w.Error(err)
	}
	came = tap.down.Load() - before
	cancel()
	<-done
	return came
}

func fetchWindow(w *world, tap *tap) {
	const limit, size, n = 4 << 20, 1 << 20, 24
	w.stored(n, size)
	var want []bus.SeqSize
	for seq := range n {
		want = append(want, bus.SeqSize{Seq: uint64(seq + 1), Size: size})
	}
	came := stalled(w, tap, func(ctx context.Context, c *bus.Conn, wait func()) error {
		f := bus.NewFetcher(c, run.StreamName(subjects.Rollouts), bus.FetchConfig{WindowBytes: limit})
		return f.Fetch(ctx, want, func(uint64, nats.Header, []byte) error { wait(); return nil })
	}, limit)
	if came > limit+slack {
		w.Errorf("%d bytes came into a window of %d", came, limit)
	}
}

func followWindow(w *world, tap *tap) {
	const size, n, limit = 1 << 20, 76, 2 * 32 << 20
	w.stored(n, size)
	came := stalled(w, tap, func(ctx context.Context, c *bus.Conn, wait func()) error {
		return bus.Follow(ctx, c, run.StreamName(subjects.Rollouts), "", 1, func(*bus.Msg) error { wait(); return nil })
	}, limit/4)
	if came > limit+slack {
		w.Errorf("%d bytes on their way, of at most %d", came, limit)
	}
}

func headerSlice(w *world, _ *tap) {
	const limit, message = 1 << 20, 16 << 10
	const n = 300
	for i := range n {
		hdr := nats.Header{"X": {fmt.Sprintf("%0*d", message, i)}}
		_, err := bus.Send(w.ctx(), w.conn, run.RolloutSubject("p1"), fmt.Sprint(i), hdr, nil)
		w.must(err)
	}
	most, seen := 0, 0
	err := bus.FollowHeaders(w.ctx(), w.conn, run, 1, func(msgs []bus.HeaderMsg) error {
		most, seen = max(most, len(msgs)*message), seen+len(msgs)
		if seen == n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || most > limit+message {
		w.Errorf("%d bytes of headers at once, of at most %d: %v", most, limit, err)
	}
}
