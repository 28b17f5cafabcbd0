package main

import (
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

// proxy stands between one process and NATS, and breaks the network between them.
type proxy struct {
	upstream string
	listen   net.Listener
	crew     sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]bool
	closed bool
	down   bool          // new connections are refused
	delay  time.Duration // of every piece of data
	acks   *meddler      // what it does to acknowledgements, nil: nothing
}

// link is one connection through the proxy, both halves.
type link struct {
	client, server net.Conn
	frozen         chan struct{} // closed: nothing passes any more, and nobody is told
	gone           chan struct{} // closed at the end of the link
	once           sync.Once
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.gone)
		_, _ = l.client.Close(), l.server.Close()
	})
}

func newProxy(url string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{upstream: strings.TrimPrefix(url, "nats://"), listen: l, links: map[*link]bool{}}
	p.crew.Go(p.accept)
	return p, nil
}

func (p *proxy) url() string { return "nats://" + p.listen.Addr().String() }

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listen.Close()
	p.cut()
	p.crew.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if !p.connect(client) {
			_ = client.Close()
		}
	}
}

func (p *proxy) connect(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.down {
		return false
	}
	server, err := net.DialTimeout("tcp", p.upstream, time.Second)
	if err != nil {
		return false
	}
	l := &link{client: client, server: server, frozen: make(chan struct{}), gone: make(chan struct{})}
	p.links[l] = true
	p.crew.Go(func() { p.pump(l, client, server, toServer) })
	p.crew.Go(func() { p.pump(l, server, client, toClient) })
	return true
}

// pump passes one direction on.
func (p *proxy) pump(l *link, from, to net.Conn, d direction) {
	defer l.close()
	in, out := newFrames(from), &outlet{to: to}
	for {
		piece, err := in.next()
		if err != nil {
			return
		}
		p.mu.Lock()
		delay, acks := p.delay, p.acks
		p.mu.Unlock()
		if delay > 0 {
			time.Sleep(delay)
		}
		select {
		case <-l.frozen:
			<-l.gone
			return
		default:
		}
		if acks == nil || !isAck(piece, d) {
			err = out.pass(piece)
		} else {
			err = acks.meddle(out, piece)
		}
		if err != nil {
			return
		}
	}
}

// cut closes every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
		delete(p.links, l)
	}
}

// refuse closes new connections as well, or lets them through again.
func (p *proxy) refuse(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	p.cut()
}

// slow delays everything.
func (p *proxy) slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// freeze makes every connection half-open for good: neither side hears of the
// other again, nor of the end. New connections work.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		close(l.frozen)
		delete(p.links, l)
		p.crew.Go(func() { // what is never closed is closed at the end
			for !p.over() {
				time.Sleep(50 * time.Millisecond)
			}
			l.close()
		})
	}
}

func (p *proxy) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// spoil does something to acknowledgements from now on; nil ends it.
func (p *proxy) spoil(m *meddler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.acks = m
}
