package bus_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// cluster starts three servers that replicate, and connects to each.
func cluster(t *testing.T) []*bus.Conn {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		_ = l.Close()
	}
	var servers []*server.Server
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, JetStream: true,
			StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 50, Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}, Routes: routes})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	var conns []*bus.Conn
	for _, s := range servers {
		if !s.ReadyForConnections(20 * time.Second) {
			t.Fatal("server not ready")
		}
		conns = append(conns, open(t, bus.Options{URL: s.ClientURL(), User: "any"}))
	}
	return conns
}

// On a cluster a write that loses against one in flight gets another code (10164)
// than one that loses against one stored (10071); to a caller they are the same.
func TestAppend_OnAClusterTheChainHolds(t *testing.T) {
	conns := cluster(t)
	ctx, cancel := contextWithin(t, 60)
	defer cancel()
	for ready := false; !ready; { // the cluster elects its leader
		try, stop := context.WithTimeout(ctx, time.Second)
		err := bus.EnsureStreams(try, conns[0], run, subjects.StreamOptions{Replicas: 3})
		stop()
		if ready = err == nil; ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	codes, wins := map[int]int{}, map[uint64]int{}
	var wg sync.WaitGroup
	for w := range 6 {
		c := conns[w%3]
		wg.Go(func() {
			for last := uint64(0); last < 60; {
				seq, err := bus.Append(ctx, c, run.LedgerSubject(), nil, []byte{byte(w)}, last)
				var api *bus.APIError
				switch {
				case err == nil:
					mu.Lock()
					wins[seq]++
					mu.Unlock()
					last = seq
				case errors.Is(err, bus.ErrConflict) && errors.As(err, &api):
					mu.Lock()
					codes[api.Code]++
					mu.Unlock()
					if m, err := bus.Last(ctx, c, ledger, run.LedgerSubject()); err == nil {
						last = m.Seq
					}
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for seq, n := range wins {
		if n != 1 {
			t.Errorf("place %d was won %d times", seq, n)
		}
	}
	if codes[10071] == 0 || codes[10164] == 0 {
		t.Errorf("codes seen: %v", codes)
	}
	if len(wins) < 60 {
		t.Errorf("%d places won", len(wins))
	}
}
