package bus_test

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// TestPublisher_ABusyServerIsRetriedAndNothingIsLost runs against a server that
// may queue little, so that it answers "too many requests".
func TestPublisher_ABusyServerIsRetriedAndNothingIsLost(t *testing.T) {
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, JetStreamMaxStore: 1 << 50,
		SyncAlways: true, StreamMaxBufferedSize: 64 << 10, StreamMaxBufferedMsgs: 2})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("server not ready")
	}
	c := open(t, bus.Options{InProcess: s})
	ensureRun(t, c)
	var wg sync.WaitGroup
	var producers []*bus.Publisher
	for i := range 8 { // eight producers, each with a window of its own
		p := publisher(t, c, bus.PublisherConfig{Producer: string(rune('a' + i)), BundleBytes: 4 << 10})
		producers = append(producers, p)
		for g := range 10 {
			wg.Go(func() {
				for k := range 10 {
					e := entry(string(rune('a'+i))+string(rune('a'+g)), k)
					if _, err := p.PublishEncoded(t.Context(), e, body(e.ID(), 4<<10)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	busy := uint64(0)
	for _, p := range producers {
		busy += p.Stats().Busy
	}
	if busy == 0 {
		t.Error("the server was never busy")
	}
	st, err := bus.StreamState(t.Context(), c, run, subjects.Rollouts)
	if err != nil || st.Msgs < 700 {
		t.Errorf("%d messages, %v", st.Msgs, err)
	}
}
