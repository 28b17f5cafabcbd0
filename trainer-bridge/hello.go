package trainerbridge

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
	"github.com/headrace/headrace/trainer-bridge/ring"
)

const (
	helloTimeout = 10 * time.Second
	helloBytes   = 64 << 10 // of a peer that has not shown a token yet
)

// handle serves one connection from HELLO to its end.
func (b *bridge) handle(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	detectDeath(conn)
	w := &frameWriter{conn: conn}
	hello, err := readHello(conn)
	heard := time.Now()
	if err == nil {
		err = b.admit(conn, &hello)
	}
	if err != nil {
		b.Log.Warn().Err(err).Str("peer", conn.RemoteAddr().String()).Msg("refused a trainer")
		_ = w.send(feed.TypeError, feed.Refusal{Message: err.Error()})
		return
	}
	s := &session{bridge: b, conn: conn, out: w, part: layout.Part{Rank: hello.Rank, World: hello.World}, opened: make(chan struct{}), done: make(chan struct{}),
		greeted: heard, told: make(chan told, maxTold)}
	if err := b.claim(ctx, s); err != nil {
		_ = w.send(feed.TypeError, feed.Refusal{Message: err.Error()})
		return
	}
	defer b.leave(s)
	if err := s.open(ctx, hello); err != nil {
		b.Log.Warn().Err(err).Msg("open feed")
		_ = w.send(feed.TypeError, feed.Refusal{Message: err.Error()})
		return
	}
	defer s.ring.Close()
	s.run(ctx)
}

func readHello(conn net.Conn) (feed.Hello, error) {
	var hello feed.Hello
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return hello, err
	}
	f, err := feed.Read(conn, feed.Limits{JSON: helloBytes})
	if err != nil {
		return hello, fmt.Errorf("read HELLO: %w", err)
	}
	if f.Type != feed.TypeHello {
		return hello, fmt.Errorf("a feed opens with HELLO, not %s", f.Type)
	}
	if err := f.Decode(&hello); err != nil {
		return hello, err
	}
	return hello, conn.SetReadDeadline(time.Time{})
}

// admit checks what a trainer asks for.
func (b *bridge) admit(conn net.Conn, h *feed.Hello) error {
	h.World = max(h.World, 1)
	_, local := conn.(*net.UnixConn)
	switch {
	case h.V != feed.Version:
		return fmt.Errorf("trainer speaks protocol %d, this bridge speaks %d", h.V, feed.Version)
	case !local && subtle.ConstantTimeCompare([]byte(h.Token), []byte(b.Token)) != 1:
		return errors.New("wrong or missing token: set HEADRACE_FEED_TOKEN to the bridge's")
	case h.Transport != feed.MemFD && h.Transport != feed.Stream:
		return fmt.Errorf("unknown transport %q", h.Transport)
	case h.CheckpointStep != nil && *h.CheckpointStep < 0:
		return fmt.Errorf("checkpoint step %d", *h.CheckpointStep)
	}
	if !local {
		h.Transport = feed.Stream // descriptors do not cross machines
	}
	return layout.Part{Rank: h.Rank, World: h.World}.Validate()
}

// open prepares the session and welcomes the trainer.
func (s *session) open(ctx context.Context, h feed.Hello) error {
	checkpoint := subjects.Step(0)
	if h.CheckpointStep != nil {
		checkpoint = *h.CheckpointStep
	}
	last, err := s.manifests.lastStep(ctx)
	if err != nil {
		return err
	}
	if checkpoint > last {
		return fmt.Errorf("checkpoint holds step %d, the ledger of run %s ends at %d: another run's checkpoint?", checkpoint, s.Run, last)
	}
	s.start, s.committed, s.next, s.checkpoint = checkpoint, checkpoint, checkpoint+1, checkpoint
	s.doing.starts(checkpoint)
	if s.incarnation, err = s.resume(ctx, checkpoint); err != nil {
		return err
	}
	if err := s.prepare(h.Transport); err != nil {
		return err
	}
	if err := s.welcome(); err != nil {
		return errors.Join(err, s.ring.Close())
	}
	s.Log.Info().Str("client", h.Client).Int64("checkpoint", int64(checkpoint)).Int("incarnation", s.incarnation).
		Str("transport", string(s.transport)).Int("rank", h.Rank).Msg("trainer connected")
	s.OnEvent(Event{Kind: Connected, Step: checkpoint, Incarnation: s.incarnation, Text: h.Client})
	return nil
}

// prepare makes the ring and the builder.
func (s *session) prepare(t feed.Transport) error {
	writer, err := layout.NewWriter(s.Layout)
	if err != nil {
		return err
	}
	cfg := writer.Config()
	s.ring, err = ring.New(cfg.Slots, cfg.SlotBytes(), t == feed.MemFD)
	if err != nil {
		return err
	}
	s.transport = feed.Stream
	if s.ring.File() != nil {
		s.transport = feed.MemFD
	}
	s.builder = &builder{conn: s.Conn, run: s.Run, writer: writer, part: s.part, vocab: s.Vocab, bodies: s.bodies,
		fetch: s.fetch, stats: s.stats, loaded: map[uint64]*bundle{}}
	s.ready = make(chan prepared, cfg.Slots+1)
	close(s.opened)
	return nil
}

func (s *session) welcome() error {
	frame, err := feed.Append(nil, feed.TypeWelcome, feed.Welcome{
		V: feed.Version, Run: s.Run, StartStep: s.next, Incarnation: s.incarnation, Transport: s.transport,
		Slots: s.ring.Slots(), SlotBytes: s.ring.SlotBytes(), Trainer: s.Trainer, Model: s.Model,
		MaxSteps: s.MaxSteps, Paths: s.Paths, Spans: maxSpans, Clock: clockSince(s.greeted),
	}, 0)
	if err != nil {
		return err
	}
	if s.ring.File() == nil {
		return s.out.write(frame)
	}
	return feed.WriteWithFile(s.conn.(*net.UnixConn), frame, s.ring.File())
}
