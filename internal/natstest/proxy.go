package natstest

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/headrace/headrace/internal/bus"
)

// Proxy stands between clients and a server on loopback TCP and can lose an
// answer on purpose: it passes a publish on, reads the server's answer, and cuts
// the connection instead of delivering it.
type Proxy struct {
	server *bus.Server
	listen net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	trap  string // subject whose next publish loses its answer
	spare bool   // it loses the answer alone, not the connection
	open  map[net.Conn]bool
	cuts  int
	ended bool
}

// NewProxy starts a proxy for the server; it ends with the test.
func NewProxy(t testing.TB, s *bus.Server) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{server: s, listen: l, open: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Connect connects through the proxy until the test ends.
func (p *Proxy) Connect(t testing.TB) *bus.Conn {
	t.Helper()
	o := p.server.RemoteOptions()
	o.URL = "nats://" + p.listen.Addr().String()
	return connect(t, o)
}

// CutAfterNext loses the answer to the next publish on the subject.
func (p *Proxy) CutAfterNext(subject string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = subject
}

// LoseAfterNext loses the answer to the next publish on the subject, and the
// connection lives on.
func (p *Proxy) LoseAfterNext(subject string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap, p.spare = subject, true
}

// Cuts counts the connections that were cut.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *Proxy) accept() {
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
		if !p.keep(client, server) {
			return
		}
		armed := make(chan struct{})
		p.wg.Go(func() { p.up(client, server, armed) })
		p.wg.Go(func() { p.down(client, server, armed) })
	}
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.open[c] = true
		if p.ended {
			_ = c.Close()
		}
	}
	return !p.ended
}

// up passes the client's bytes on and arms the cut when the trap comes by. A
// publish is assumed to begin in one read, which holds for small ones.
func (p *Proxy) up(client, server net.Conn, armed chan struct{}) {
	defer func() { _, _ = client.Close(), server.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if p.sprung(buf[:n]) {
			close(armed)
		}
		if _, werr := server.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (p *Proxy) sprung(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap == "" || !bytes.Contains(b, []byte("PUB "+p.trap+" ")) {
		return false
	}
	p.trap = ""
	if !p.spare {
		p.cuts++
	}
	return true
}

// down passes the server's bytes on until an answer comes while the cut is armed.
func (p *Proxy) down(client, server net.Conn, armed chan struct{}) {
	defer func() { _, _ = client.Close(), server.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		select {
		case <-armed:
			if bytes.Contains(buf[:n], []byte("MSG ")) {
				if !p.spared() {
					return
				}
				armed, n = nil, 0
			}
		default:
		}
		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (p *Proxy) spared() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spare
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.ended = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	_ = p.listen.Close()
	p.wg.Wait()
}
