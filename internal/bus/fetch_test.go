package bus_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// sizes asks for sequences, all with the same guess.
func sizes(guess int, seqs ...uint64) []bus.SeqSize {
	var out []bus.SeqSize
	for _, s := range seqs {
		out = append(out, bus.SeqSize{Seq: s, Size: guess})
	}
	return out
}

func TestFetch_DeliversWhatIsThereAndNamesWhatIsNot(t *testing.T) {
	c := ready(t)
	fill(t, c, 1, 20, 500)
	f := bus.NewFetcher(c, rollouts, bus.FetchConfig{})
	var got []uint64
	err := f.Fetch(t.Context(), sizes(500, 3, 99, 7, 3, 20, 100), func(seq uint64, hdr nats.Header, data []byte) error {
		if hdr.Get("N") != fmt.Sprint(seq) || string(data) != string(body(fmt.Sprint(seq), 500)) {
			return fmt.Errorf("message %d differs", seq)
		}
		got = append(got, seq)
		return nil
	})
	slices.Sort(got)
	if !slices.Equal(got, []uint64{3, 3, 7, 20}) {
		t.Errorf("got %v", got)
	}
	var missing *bus.MissingError
	if !errors.Is(err, bus.ErrNotFound) || !errors.As(err, &missing) || len(missing.Seqs) != 2 {
		t.Errorf("got %v", err)
	}
	if err := f.Fetch(t.Context(), nil, nil); err != nil {
		t.Errorf("nothing wanted: %v", err)
	}
}

func TestFetch_ManyAtOnceShareASmallWindow(t *testing.T) {
	c := ready(t)
	fill(t, c, 1, 40, 300<<10)
	f := bus.NewFetcher(c, rollouts, bus.FetchConfig{WindowBytes: 1 << 20})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			n := 0
			var want []uint64
			for s := range uint64(40) {
				want = append(want, s+1)
			}
			err := f.Fetch(t.Context(), sizes(10, want...), func(uint64, nats.Header, []byte) error { n++; return nil })
			if err != nil || n != 40 {
				t.Errorf("%d messages, %v", n, err)
			}
		})
	}
	wg.Wait()
}

func TestFetch_ItsFunctionsErrorEndsItAndFreesTheWindow(t *testing.T) {
	c := ready(t)
	fill(t, c, 1, 10, 10)
	f := bus.NewFetcher(c, rollouts, bus.FetchConfig{WindowBytes: 1 << 20})
	for range 20 {
		err := f.Fetch(t.Context(), sizes(0, 1, 2, 3, 4, 5, 6), func(uint64, nats.Header, []byte) error { return errDone })
		if !errors.Is(err, errDone) {
			t.Fatal(err)
		}
	}
}

func TestFetch_AStreamThatDoesNotExistIsTyped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := natstest.Connect(t, natstest.InProcess(t))
		err := bus.NewFetcher(c, "NONE", bus.FetchConfig{}).Fetch(t.Context(), sizes(0, 1), func(uint64, nats.Header, []byte) error { return nil })
		if !errors.Is(err, bus.ErrNoStream) {
			t.Errorf("got %v", err)
		}
	})
}

func TestFetch_GoesOnThroughARestart(t *testing.T) {
	s := natstest.NewRestartable(t)
	c := s.Connect(t)
	ensureRun(t, c)
	fill(t, c, 1, 50, 1000)
	f := bus.NewFetcher(c, rollouts, bus.FetchConfig{WindowBytes: 2 << 20})
	var want []uint64
	for i := range uint64(50) {
		want = append(want, i+1)
	}
	got := map[uint64]int{}
	err := f.Fetch(t.Context(), sizes(1000, want...), func(seq uint64, _ nats.Header, _ []byte) error {
		if got[seq]++; len(got) == 10 {
			s.Restart(t)
		}
		return nil
	})
	if err != nil || len(got) != 50 {
		t.Fatalf("%d of 50, %v", len(got), err)
	}
	for seq, n := range got {
		if n != 1 {
			t.Errorf("message %d was handed over %d times", seq, n)
		}
	}
}

func TestParts_ABodyOverMaxPayloadComesBackWhole(t *testing.T) {
	c := natstest.Connect(t, natstest.Start(t, bus.ServerOptions{Port: -1, Sync: "10m", MaxPayload: 64 << 10}))
	ensureRun(t, c)
	p := publisher(t, c, bus.PublisherConfig{BundleBytes: 16 << 10})
	sizes := []int{100, 61 << 10, 62<<10 + 1, 64 << 10, 500_000, 20_000}
	var addresses []subjects.Address
	for i, n := range sizes {
		e := entry("big", i)
		at, err := p.PublishEncoded(t.Context(), e, body(e.ID(), n))
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, at)
	}
	collect(t, c, func(ids []string) bool { return len(ids) == len(sizes) })
	f := bus.NewFetcher(c, rollouts, bus.FetchConfig{})
	for i, at := range addresses {
		err := f.Fetch(t.Context(), []bus.SeqSize{{Seq: at.Seq}}, func(seq uint64, hdr nats.Header, data []byte) error {
			b, err := bus.OpenBundle(seq, hdr, data)
			if err != nil {
				return err
			}
			e := entry("big", i)
			if string(b.Body(at.Index)) != string(body(e.ID(), sizes[i])) {
				return fmt.Errorf("body %d differs: %v", i, b.Items[at.Index].Err)
			}
			if low := bus.Lowest(seq, hdr); (low != seq) != (sizes[i] > 61<<10) {
				return fmt.Errorf("body %d: lowest sequence %d of %d", i, low, seq)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestParts_PublishedTwiceAreStoredOnce(t *testing.T) {
	c := natstest.Connect(t, natstest.Start(t, bus.ServerOptions{Port: -1, Sync: "10m", MaxPayload: 64 << 10}))
	ensureRun(t, c)
	e := entry("big", 0)
	var seen [2]subjects.Address
	for i := range seen {
		p := publisher(t, c, bus.PublisherConfig{})
		at, err := p.PublishEncoded(t.Context(), e, body(e.ID(), 200_000))
		if err != nil {
			t.Fatal(err)
		}
		seen[i] = at
	}
	if seen[0] != seen[1] || seen[0].Seq != 4 {
		t.Errorf("addresses %v", seen)
	}
}

func TestParts_AHostileListIsMalformedNotALoop(t *testing.T) {
	c := ready(t)
	fill(t, c, 1, 3, 10)
	for i, list := range []string{"1,2,3", "9", "3,2", "0", "x", "1,1", "4", "18446744073709551616"} {
		hdr := nats.Header{subjects.HeaderParts: {list}}
		seq, err := bus.Send(t.Context(), c, run.RolloutSubject("evil"), fmt.Sprint("evil/", i), hdr, []byte("end"))
		if err != nil {
			t.Fatal(err)
		}
		err = bus.NewFetcher(c, rollouts, bus.FetchConfig{}).Fetch(t.Context(), sizes(0, seq, 1), func(uint64, nats.Header, []byte) error { return nil })
		if !errors.Is(err, bus.ErrMalformed) {
			t.Errorf("list %q: %v", list, err)
		}
	}
}
