package trainerbridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// Bounds of what a trainer may say of itself. What is over them is refused or
// dropped, and counted: telemetry holds nobody up and ends no session.
const (
	maxSpans     = 4096 // of a frame
	maxSpanBytes = 1 << 20
	maxSpanNames = 512
	maxSpanName  = 128 // bytes
	maxSpanLane  = 63
	maxSpanSkew  = int64(10 * time.Minute) // of the trainer's clock, once it is corrected
	maxTold      = 8                       // frames that wait to be passed on
	clockEvery   = time.Minute
)

// told is a SPANS frame and when it came.
type told struct {
	frame feed.Frame
	at    time.Time
}

// clock is how far the server's clock is ahead of the bridge's.
type clock struct {
	mu     sync.Mutex
	offset spans.Offset
}

func (c *clock) now() spans.Offset {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset
}

// keep measures the clock once a minute until ctx ends. A measurement that
// fails leaves the one before.
func (c *clock) keep(ctx context.Context, conn *bus.Conn) error {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		o, err := spans.Measure(ctx, func() int64 { return time.Now().UnixNano() },
			func(ctx context.Context) (time.Time, error) { return bus.ServerTime(ctx, conn) })
		if err == nil {
			c.mu.Lock()
			c.offset = o
			c.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// listen takes a SPANS frame, if there is room for it.
func (s *session) listen(f feed.Frame) {
	select {
	case s.told <- told{f, time.Now()}:
	default:
		s.stats.trainerSpansDropped.Add(1)
	}
}

// retell passes on what the trainer says of itself until ctx ends, and what had
// come by then.
func (s *session) retell(ctx context.Context) error {
	for {
		select {
		case t := <-s.told:
			if err := s.answerSpans(t); err != nil {
				return err
			}
		case <-ctx.Done():
			if len(s.told) == 0 {
				return ctx.Err()
			}
		}
	}
}

// answerSpans publishes a frame's spans or says what is wrong with them.
func (s *session) answerSpans(t told) error {
	var m feed.Spans
	err := t.frame.Decode(&m)
	if err == nil {
		err = s.publishSpans(&m, len(t.frame.JSON), t.at)
	}
	if err == nil {
		s.stats.trainerSpans.Add(int64(len(m.Name)))
		return s.reply(feed.TypeOK, feed.OK{ID: m.ID, Clock: clockSince(t.at)})
	}
	s.stats.trainerSpansDropped.Add(int64(max(len(m.Name), 1)))
	s.Log.Debug().Err(err).Int("rank", s.part.Rank).Msg("refused a trainer's spans")
	if m.ID == 0 { // an ERROR without an id would end the feed
		return s.reply(feed.TypeNotice, feed.Notice{Kind: "spans", Text: "refused: " + err.Error()})
	}
	return s.reply(feed.TypeError, feed.Refusal{ID: m.ID, Message: err.Error()})
}

// publishSpans sends a frame's spans as those of the trainer's rank. Nothing
// waits for the bus: what gets lost is counted.
func (s *session) publishSpans(m *feed.Spans, bytes int, at time.Time) error {
	ahead := s.clock.now()
	b := &subjects.SpanBatch{V: subjects.SchemaVersion, Role: "trainer", Instance: fmt.Sprintf("rank%d", s.part.Rank), At: m.At,
		Offset: m.Offset + int64(ahead.Ahead), Uncertainty: m.Uncertainty + int64(ahead.Uncertainty),
		Dropped: m.Dropped + uint64(s.stats.trainerSpansDropped.Load()),
		Names:   m.Names, Name: m.Name, Lane: m.Lane, Start: m.Start, Duration: m.Duration, Args: m.Args}
	if err := checkSpans(m, b, bytes, at); err != nil {
		return err
	}
	data, err := subjects.EncodeMessage(b)
	if err != nil {
		return err
	}
	return s.Conn.Tell(s.Run.SpanSubject(b.Role, b.Instance), data)
}

// checkSpans says what is wrong with a frame.
func checkSpans(m *feed.Spans, b *subjects.SpanBatch, bytes int, at time.Time) error {
	if n := len(m.Name); n == 0 || n > maxSpans || bytes > maxSpanBytes || len(m.Args) > 4*n || len(m.Names) > maxSpanNames {
		return fmt.Errorf("%d spans with %d names and %d arguments in %d bytes; want at most %d spans, %d names and %d bytes",
			n, len(m.Names), len(m.Args), bytes, maxSpans, maxSpanNames, maxSpanBytes)
	}
	for _, name := range m.Names {
		if name == "" || len(name) > maxSpanName {
			return fmt.Errorf("a name of %d bytes; want 1 to %d", len(name), maxSpanName)
		}
	}
	if m.Uncertainty < 0 || m.Uncertainty > maxSpanSkew {
		return fmt.Errorf("a clock that may be %d ns off", m.Uncertainty)
	}
	if m.At <= 0 || m.Offset > maxSkewed || m.Offset < -maxSkewed {
		return errors.New("a clock that is centuries off")
	}
	if skew := m.At + m.Offset - at.UnixNano(); max(skew, -skew) > maxSpanSkew {
		return fmt.Errorf("spans were sent %s from now by the trainer's clock: set offset to what the clock is behind", time.Duration(skew))
	}
	all, err := b.Spans()
	if err != nil {
		return err
	}
	for i := range all {
		if end := all[i].Start + all[i].Duration; all[i].Lane > maxSpanLane || end > m.At+maxSpanSkew {
			return fmt.Errorf("span %d: lane %d, ends %s after it was told", i, all[i].Lane, time.Duration(end-m.At))
		}
	}
	return nil
}

// maxSkewed is more than two clocks may differ by, and little enough to be added up.
const maxSkewed = 1 << 61

// clockSince is the bridge's clock for an answer to what came at a time.
func clockSince(received time.Time) *feed.Clock {
	return &feed.Clock{Received: received.UnixNano(), Sent: time.Now().UnixNano()}
}
