package flowtest

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/headrace/headrace/internal/bus"
)

// tap stands between a client and a server on loopback TCP: it counts what goes
// by, and can hold back what the server sends.
type tap struct {
	server   *bus.Server
	listen   net.Listener
	wg       sync.WaitGroup
	up, down atomic.Int64 // bytes to the server and from it

	mu    sync.Mutex
	gate  *sync.Cond
	held  bool
	ended bool
	open  map[net.Conn]bool
}

func newTap(t testing.TB, s *bus.Server) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{server: s, listen: l, open: map[net.Conn]bool{}}
	p.gate = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.ended, p.held = true, false
		p.mu.Unlock()
		p.gate.Broadcast()
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *tap) connect(t testing.TB, log zerolog.Logger) *bus.Conn {
	t.Helper()
	o := p.server.RemoteOptions()
	o.URL, o.Log = "nats://"+p.listen.Addr().String(), log
	c, err := bus.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (p *tap) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", strings.TrimPrefix(p.server.URL(), "nats://"))
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = true, true
		ended := p.ended
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(server, client, &p.up, false) })
		p.wg.Go(func() { p.pass(client, server, &p.down, true) })
		if ended {
			p.cut()
		}
	}
}

func (p *tap) pass(to, from net.Conn, count *atomic.Int64, gated bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		count.Add(int64(n))
		if gated {
			p.mu.Lock()
			for p.held {
				p.gate.Wait()
			}
			p.mu.Unlock()
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// hold holds what the server sends, or lets it go.
func (p *tap) hold(held bool) {
	p.mu.Lock()
	p.held = held
	p.mu.Unlock()
	p.gate.Broadcast()
}

// cut closes every connection.
func (p *tap) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
		delete(p.open, c)
	}
}
