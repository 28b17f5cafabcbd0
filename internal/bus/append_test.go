package bus_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

var ledger = run.StreamName(subjects.Ledger)

func TestAppend_OfManyWritersOneWinsEachPlace(t *testing.T) {
	c := ready(t)
	var mu sync.Mutex
	wins := map[uint64]string{}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for range 25 {
				appendOnce(t, c, fmt.Sprint("w", w), &mu, wins)
			}
		})
	}
	wg.Wait()
	if len(wins) != 100 {
		t.Errorf("%d places won, want 100", len(wins))
	}
	err := bus.Follow(t.Context(), c, ledger, "", 1, func(m *bus.Msg) error {
		if wins[m.Seq] != string(m.Data) {
			return fmt.Errorf("place %d holds %s, %s was told that it won", m.Seq, m.Data, wins[m.Seq])
		}
		if m.Seq == 100 {
			return errDone
		}
		return nil
	})
	if !errors.Is(err, errDone) {
		t.Error(err)
	}
}

// appendOnce appends after the present head, again after every lost race.
func appendOnce(t *testing.T, c *bus.Conn, writer string, mu *sync.Mutex, wins map[uint64]string) {
	for {
		last := uint64(0)
		m, err := bus.Last(t.Context(), c, ledger, run.LedgerSubject())
		if err == nil {
			last = m.Seq
		} else if !errors.Is(err, bus.ErrNotFound) {
			t.Error(err)
			return
		}
		seq, err := bus.Append(t.Context(), c, run.LedgerSubject(), nil, []byte(writer), last)
		if errors.Is(err, bus.ErrConflict) {
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		wins[seq] = writer
		mu.Unlock()
		return
	}
}

func TestAppend_AnAnswerThatGotLostIsResolved(t *testing.T) {
	s := natstest.Loopback(t)
	proxy := natstest.NewProxy(t, s)
	direct, lossy := natstest.Connect(t, s), proxy.Connect(t)
	ensureRun(t, direct)
	last := uint64(0)
	for i := range 5 {
		proxy.CutAfterNext(run.LedgerSubject()) // the server stores it, the answer never arrives
		seq, err := bus.Append(t.Context(), lossy, run.LedgerSubject(), nil, []byte(fmt.Sprint("mine ", i)), last)
		if err != nil || seq != last+1 {
			t.Fatalf("append %d: got %d, %v", i, seq, err)
		}
		last = seq
	}
	if st, err := bus.StreamState(t.Context(), direct, run, subjects.Ledger); err != nil || st.Msgs != 5 {
		t.Errorf("state %+v, %v", st, err)
	}
	if proxy.Cuts() != 5 {
		t.Errorf("%d connections were cut", proxy.Cuts())
	}
}

func TestAppend_AForeignDuplicateIsAConflict(t *testing.T) {
	c := ready(t)
	hdr := nats.Header{nats.MsgIdHdr: {"batch/7"}}
	if _, err := bus.Append(t.Context(), c, run.LedgerSubject(), hdr, []byte("theirs"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.Append(t.Context(), c, run.LedgerSubject(), hdr, []byte("mine"), 1); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("got %v", err)
	}
}
