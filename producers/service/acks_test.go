package service_test

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/producers"
	"github.com/headrace/headrace/producers/pool"
	"github.com/headrace/headrace/subjects"
)

// gate stands between a producer and its server and keeps acknowledgements of
// leases back as long as it is told to.
type gate struct {
	nats.InProcessConnProvider
	mu    sync.Mutex
	keeps func(subject string) bool
	seen  []string // what they were sent on, each once
	kept  []func() error
}

func (g *gate) InProcessConn() (net.Conn, error) {
	c, err := g.InProcessConnProvider.InProcessConn()
	return &gated{Conn: c, gate: g}, err
}

// takes reports whether it keeps an acknowledgement.
func (g *gate) takes(subject string, pass func() error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.seen, subject) {
		g.seen = append(g.seen, subject)
	}
	if g.keeps == nil || !g.keeps(subject) {
		return false
	}
	g.kept = append(g.kept, pass)
	return true
}

// open lets pass what was kept, late, and what comes.
func (g *gate) open() {
	g.mu.Lock()
	kept := g.kept
	g.keeps, g.kept = nil, nil
	g.mu.Unlock()
	for _, pass := range kept {
		_ = pass()
	}
}

func (g *gate) acks() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.seen)
}

// gated is a client's connection. It cuts what is written into NATS's frames.
type gated struct {
	net.Conn
	gate *gate
	mu   sync.Mutex
	rest []byte
}

func (c *gated) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, b...)
	for {
		n := frame(c.rest)
		if n == 0 {
			return len(b), nil
		}
		whole := slices.Clone(c.rest[:n])
		c.rest = c.rest[n:]
		line, payload, _ := bytes.Cut(whole, []byte("\r\n"))
		if f := bytes.Fields(line); bytes.Equal(payload, []byte("+ACK\r\n")) && c.gate.takes(string(f[1]), func() error { return c.pass(whole) }) {
			continue
		}
		if _, err := c.Conn.Write(whole); err != nil {
			return 0, err
		}
	}
}

func (c *gated) pass(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.Conn.Write(frame)
	return err
}

// frame is the length of the first frame: a line, and the payload that it announces.
func frame(b []byte) int {
	n := bytes.IndexByte(b, '\n') + 1
	if f := bytes.Fields(b[:n]); n > 0 && bytes.HasSuffix(f[0], []byte("PUB")) {
		size, err := strconv.Atoi(string(f[len(f)-1]))
		if n += size + len("\r\n"); err != nil || n > len(b) {
			return 0
		}
	}
	return n
}

// up is an engine in this process, which always says "up"; asked hears of each call.
type up struct {
	ids   []int32
	asked func(seed uint64)
}

func (e up) Probe(context.Context) error { return nil }
func (e up) Close() error                { return nil }
func (e up) Generate(_ context.Context, r producers.Request) (producers.Completion, error) {
	e.asked(r.Sampling.Seed)
	ids := append(slices.Clone(e.ids), r.StopIDs[0])
	return producers.Completion{IDs: ids, Logprobs: make([]float32, len(ids)), Finish: producers.FinishStop, Engine: "e1",
		Versions: []subjects.VersionSpan{{Start: 0, End: int32(len(ids)), Version: 4}}}, nil
}

// behind runs a producer of n slots behind a gate.
func (s *stage) behind(g *gate, n int, asked func(seed uint64)) (stop func() error) {
	s.t.Helper()
	s.register("e1", "http://nowhere")
	o := s.server.Options()
	g.InProcessConnProvider, o.InProcess = o.InProcess, g
	conn, err := bus.Connect(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	cfg := s.config("p1")
	cfg.Slots = n
	cfg.Dial = func(string, string) (pool.Engine, error) { return up{s.words.Encode("up"), asked}, nil }
	return s.startOn(conn, cfg)
}

// TestService_ASlotPlaysOnWhileItsAckIsAwaited: one acknowledgement for each slot
// may be outstanding, and the episode that came meanwhile waits for its place.
func TestService_ASlotPlaysOnWhileItsAckIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, tasks = 3, 20
		s := open(t)
		s.tasks(0, tasks)
		g := &gate{keeps: func(string) bool { return true }}
		stop := s.behind(g, slots, func(uint64) {})
		s.await(2 * slots)
		synctest.Wait() // all that can be done is
		if played, acks := s.count(), g.acks(); played != 2*slots || acks != slots {
			t.Errorf("%d trajectories were published and %d acknowledged, want %d and %d", played, acks, 2*slots, slots)
		}
		g.open()
		s.awaitDone(tasks)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if s.twice != 0 || g.acks() != tasks {
			t.Errorf("%d came twice, %d acknowledgements", s.twice, g.acks())
		}
	})
}

// TestService_AnAckThatIsLostLosesNothing, nor one that comes when the task is
// being played again: it is played twice, and published once.
func TestService_AnAckThatIsLostLosesNothing(t *testing.T) {
	for name, late := range map[string]bool{"lost": false, "late": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t)
				s.tasks(0, 5)
				first := ""
				g := &gate{}
				g.keeps = func(subject string) bool { // of the lease that is acknowledged first
					if first == "" {
						first = subject
					}
					return subject == first
				}
				begun, again := time.Now(), false
				stop := s.behind(g, 2, func(uint64) {
					if time.Since(begun) > bus.LeaseTime && !again { // of the task that came back
						again = true
						if late {
							g.open()
						}
					}
				})
				time.Sleep(3 * bus.LeaseTime) // of the bubble
				if err := stop(); err != nil {
					t.Error(err)
				}
				if !again || s.twice != 0 || s.count() != 5 || s.queued() != 0 {
					t.Errorf("again %v, %d came twice, %d at all, %d are left", again, s.twice, s.count(), s.queued())
				}
			})
		})
	}
}
