package trainerbridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
	"github.com/headrace/headrace/trainer-bridge/layout"
	"github.com/headrace/headrace/trainer-bridge/ring"
)

// session is one connected trainer. Five goroutines serve it: one reads frames
// and hands them on, one prepares batches, one answers NEXT, one reports to the
// bus, in the order of the trainer's reports, one passes its spans on.
type session struct {
	*bridge
	conn        net.Conn
	out         *frameWriter
	part        layout.Part
	transport   feed.Transport
	incarnation int
	ring        *ring.Ring
	builder     *builder
	opened      chan struct{} // closed when the fields above are set
	done        chan struct{} // closed when the session has ended
	greeted     time.Time     // when HELLO had come
	told        chan told     // what it said that it did
	doing       doing

	next      subjects.Step // to prepare; the builder's
	ready     chan prepared
	start     subjects.Step // what the checkpoint held
	delivered subjects.Step // the answerer's, read by the reporter
	mu        sync.Mutex    // guards delivered

	// present ends when nothing more will come from the trainer; what it sent
	// before is still reported.
	present context.Context

	// The reporter's.
	committed, checkpoint subjects.Step
}

// prepared is what answers a NEXT: a batch in a slot, the end, or an error.
type prepared struct {
	slot  int
	batch *feed.Batch
	end   *feed.End
	err   error
}

// Requests that a trainer may have open; more break the protocol.
const (
	maxNexts   = 8
	maxReports = 1024
)

// errBye ends a session in good order.
type errBye struct{ reason string }

func (e *errBye) Error() string { return "trainer closed: " + e.reason }

func (s *session) run(ctx context.Context) {
	work, ctx := errgroup.WithContext(ctx)
	unhook := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer unhook()
	nexts, reports := make(chan int64, maxNexts), make(chan feed.Frame, maxReports)
	present, hangUp := context.WithCancel(ctx)
	s.present = present
	work.Go(func() error {
		defer hangUp()
		return s.read(nexts, reports)
	})
	work.Go(func() error { return s.prefetch(ctx) })
	work.Go(func() error { return s.answer(ctx, nexts) })
	work.Go(func() error { return s.report(ctx, reports) })
	work.Go(func() error { return s.retell(ctx) })
	err := work.Wait()
	var bye *errBye
	switch {
	case errors.As(err, &bye):
		s.Log.Info().Str("reason", bye.reason).Int("rank", s.part.Rank).Msg("trainer closed the feed")
	case errors.Is(err, context.Canceled):
	default:
		s.Log.Warn().Err(err).Int("rank", s.part.Rank).Msg("trainer is gone")
	}
	s.OnEvent(Event{Kind: Disconnected, Step: s.committed, Incarnation: s.incarnation, Text: err.Error()})
}

// errLast is what dispatch returns for a trainer's last frame.
var errLast = errors.New("last frame")

// read takes frames until BYE or the end of the connection, which counts as one:
// the reporter ends the session once it has dealt with what came before. A frame
// that breaks the protocol is answered and ends the session at once.
func (s *session) read(nexts chan<- int64, reports chan<- feed.Frame) error {
	in := bufio.NewReaderSize(s.conn, 64<<10)
	for {
		f, err := feed.Read(in, feed.Limits{JSON: feed.MaxJSON})
		if err != nil && !errors.Is(err, feed.ErrProtocol) {
			f, err = feed.Frame{Type: feed.TypeBye, JSON: []byte(`{"reason":"connection lost"}`)}, nil
		}
		if err == nil {
			err = s.dispatch(f, nexts, reports)
		}
		switch {
		case errors.Is(err, errLast):
			return nil
		case errors.Is(err, feed.ErrProtocol):
			return s.broken(err)
		case err != nil:
			return err
		}
	}
}

func (s *session) dispatch(f feed.Frame, nexts chan<- int64, reports chan<- feed.Frame) error {
	switch f.Type {
	case feed.TypeNext:
		var r feed.Request
		if err := f.Decode(&r); err != nil {
			return err
		}
		select {
		case nexts <- r.ID:
			return nil
		default:
			return fmt.Errorf("%w: more than %d NEXT are open", feed.ErrProtocol, maxNexts)
		}
	case feed.TypeRelease:
		return s.release(f)
	case feed.TypeCommit, feed.TypeCheckpointed, feed.TypeWeights, feed.TypeWaitWeights, feed.TypeBye:
		select {
		case reports <- f:
			if f.Type == feed.TypeBye {
				return errLast
			}
			return nil
		default:
			return fmt.Errorf("%w: more than %d reports are open", feed.ErrProtocol, maxReports)
		}
	case feed.TypeNotice:
		s.notice(f)
		return nil
	case feed.TypeSpans:
		s.listen(f)
		return nil
	}
	return fmt.Errorf("%w: %s is not for a trainer to send", feed.ErrProtocol, f.Type)
}

func (s *session) release(f feed.Frame) error {
	var r feed.Release
	if err := f.Decode(&r); err != nil {
		return err
	}
	if err := s.ring.Release(r.Slot); err != nil {
		return fmt.Errorf("%w: RELEASE: %v", feed.ErrProtocol, err)
	}
	return nil
}

// notice passes a trainer's remark on: to the log, the gauges and whoever
// watches. One that cannot be read is not worth a connection.
func (s *session) notice(f feed.Frame) {
	var n feed.Notice
	if err := f.Decode(&n); err != nil {
		s.Log.Debug().Err(err).Msg("read trainer's notice")
		return
	}
	text := n.Text
	if n.Total > 0 {
		text = fmt.Sprintf("%s %.0f/%.0f loss %.4g", n.Phase, n.Done, n.Total, n.Loss)
	}
	s.stats.say(text)
	s.Log.Debug().Str("kind", n.Kind).Str("text", text).Msg("trainer says")
	s.OnEvent(Event{Kind: Noticed, Text: text, Notice: &n, Incarnation: s.incarnation})
}

// writeTimeout is how long a trainer may leave a piece of a frame unread.
const (
	writeTimeout = 30 * time.Second
	writePiece   = 1 << 20
)

// frameWriter writes whole frames from several goroutines; a peer that does not
// read fails it.
type frameWriter struct {
	mu   sync.Mutex
	conn net.Conn
	buf  []byte
}

func (w *frameWriter) send(t feed.Type, body any, data ...byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	frame, err := feed.Append(w.buf[:0], t, body, len(data))
	if err != nil {
		return err
	}
	w.buf = frame
	if err := w.pieces(frame); err != nil {
		return fmt.Errorf("send %s: %w", t, err)
	}
	if err := w.pieces(data); err != nil {
		return fmt.Errorf("send %s: %w", t, err)
	}
	return nil
}

func (w *frameWriter) write(frame []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pieces(frame)
}

func (w *frameWriter) pieces(b []byte) error {
	for len(b) > 0 {
		if err := w.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		n, err := w.conn.Write(b[:min(len(b), writePiece)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
