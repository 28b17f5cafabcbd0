package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/spans"
	"github.com/headrace/headrace/subjects"
)

const (
	tickEvery   = 100 * time.Millisecond // timers of the core
	reportEvery = time.Second            // gauges
	headEvery   = 2 * time.Second        // a look whether somebody else writes
	headroom    = 4096                   // of a message, for its headers
	queued      = 8                      // slices of events on their way to the core
	queuedMost  = 2                      // and of rollouts' headers, each of up to two pulls: a flood fills them
)

// session is one life of a core: restored from the log, then fed until it may
// differ from it. The goroutine of run owns everything in it.
type session struct {
	*service
	core   *grouper.Core
	gate   *subjects.Gate        // what of ROLLOUTS counts
	signer *subjects.LeaseSigner // of the tasks; nil: without tokens
	replay *grouper.Replay       // until the core has caught up
	head   uint64                // ledger sequence of the last entry known here
	target uint64                // ROLLOUTS sequence to catch up to

	past        []*bus.Msg // events of WEIGHTS not noted yet
	weightsFrom uint64
	lettersFrom uint64
	letters     uint64 // last dead letter noted
	hint        uint64 // how far the inspector says it is; noted once its letters are
	hintLetters uint64 // up to where those are
	hintKnown   bool   // it says so

	rollouts  chan []bus.HeaderMsg
	weightsCh chan *bus.Msg
	lettersCh chan []bus.HeaderMsg
	hints     chan *nats.Msg
	report    gauges
}

func (s *service) session(ctx context.Context) error {
	x := &session{service: s, rollouts: make(chan []bus.HeaderMsg, queuedMost), weightsCh: make(chan *bus.Msg, queued),
		lettersCh: make(chan []bus.HeaderMsg, queued), hints: make(chan *nats.Msg, 256)}
	if err := x.leases(ctx); err != nil {
		return err
	}
	begun := s.work.Now()
	if err := x.restore(ctx); err != nil {
		return err
	}
	s.work.did(s.work.restore, begun)
	if f := s.cfg.finish; f != nil {
		x.core.Finish(f.why, f.text)
	}
	target, err := x.lastHeld(ctx, subjects.Rollouts)
	if err != nil {
		return err
	}
	x.target = target
	sub, err := s.cfg.Conn.NC().ChanSubscribe(s.cfg.Run.InspectedSubject(), x.hints)
	if err != nil {
		return fmt.Errorf("listen to the inspector: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	return x.follow(ctx)
}

// leases reads the key of the run's lease tokens. Groups from outside have none,
// and neither has a run that a version without them made.
func (s *session) leases(ctx context.Context) error {
	var key []byte
	if len(s.sources) > 0 {
		var err error
		if key, err = bus.LeaseKey(ctx, s.cfg.Conn, s.cfg.Run); err != nil && !errors.Is(err, bus.ErrNotFound) {
			return err
		}
	}
	if s.gate = subjects.NewGate(s.cfg.Run, key); s.gate.Tokens() {
		s.signer = subjects.NewLeaseSigner(key)
	}
	return nil
}

// follow starts the followers, runs the session and waits for them.
func (s *session) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	c, run := s.cfg.Conn, s.cfg.Run
	from, _ := s.core.Marks()
	g.Go(func() error {
		return bus.FollowHeaders(ctx, c, run, from+1, func(m []bus.HeaderMsg) error {
			return send(ctx, s.rollouts, append([]bus.HeaderMsg(nil), m...))
		})
	})
	g.Go(func() error {
		return bus.Follow(ctx, c, run.StreamName(subjects.Weights), "", s.weightsFrom, func(m *bus.Msg) error {
			return send(ctx, s.weightsCh, m)
		})
	})
	lettersFrom := s.lettersFrom
	g.Go(func() error {
		return bus.FollowStreamHeaders(ctx, c, run.StreamName(subjects.DeadLetter), "", lettersFrom, func(m []bus.HeaderMsg) error {
			return send(ctx, s.lettersCh, append([]bus.HeaderMsg(nil), m...))
		})
	})
	err := s.run(ctx)
	cancel()
	if waited := g.Wait(); err == nil || errors.Is(err, context.Canceled) {
		if waited != nil && !errors.Is(waited, context.Canceled) {
			return waited
		}
	}
	return err
}

func send[T any](ctx context.Context, ch chan<- T, v T) error {
	select {
	case ch <- v:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) run(ctx context.Context) error {
	tick, report, head := time.NewTicker(tickEvery), time.NewTicker(reportEvery), time.NewTicker(headEvery)
	defer tick.Stop()
	defer report.Stop()
	defer head.Stop()
	if err := s.caughtUp(ctx); err != nil {
		return err
	}
	for s.core.Ended() == "" || s.replay != nil {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-s.rollouts:
			err = s.fold(ctx, m)
		case m := <-s.weightsCh:
			s.past = append(s.past, m)
		case m := <-s.lettersCh:
			for i := range m {
				s.letter(&m[i])
			}
		case m := <-s.hints:
			s.hear(m)
		case w := <-s.dog.wishes:
			s.core.Finish(w.why, w.text)
		case <-report.C:
			s.publishGauges(time.Now())
		case <-head.C:
			err = s.checkHead(ctx)
		case <-tick.C:
		}
		if err == nil {
			err = s.settle(ctx)
		}
		if err != nil {
			return err
		}
	}
	s.publishGauges(time.Now())
	s.cfg.Log.Info().Str("reason", s.core.Ended()).Msg("run ended")
	return nil
}

// fold notes a slice of headers.
func (s *session) fold(ctx context.Context, msgs []bus.HeaderMsg) error {
	begun := s.work.Now()
	for i := range msgs {
		m := &msgs[i]
		if s.replay != nil {
			if err := s.replay.Before(m.Seq); err != nil {
				return err
			}
		}
		s.foldOne(ctx, m)
	}
	s.work.folded(begun, len(msgs))
	return s.caughtUp(ctx)
}

func (s *session) foldOne(ctx context.Context, m *bus.HeaderMsg) {
	if m.Skipped > 0 {
		s.gap(ctx, m.Seq, m.Skipped)
	}
	a := s.gate.Admit(m.Subject, m.Header)
	s.report.malformed += uint64(s.core.Arrive(m.Seq, m.Time.UnixNano(), a))
	if a.Refused > 0 || a.Err != nil {
		s.report.blame(a, m.Seq)
	}
}

// caughtUp ends the replay when all is folded that was there at its start, and
// queues what is outstanding: a crash may have come between a decision and its tasks.
func (s *session) caughtUp(ctx context.Context) error {
	if seq, _ := s.core.Marks(); s.replay == nil || seq < s.target {
		return nil
	}
	if err := s.replay.Done(); err != nil {
		return err
	}
	s.replay = nil
	plays := s.core.Outstanding()
	s.cfg.Log.Info().Uint64("ledger", s.head).Int("outstanding", len(plays)).Msg("grouper ready")
	return s.queue(ctx, plays)
}

// settle notes what had to wait for its turn, then decides until nothing is left.
func (s *session) settle(ctx context.Context) error {
	if s.replay != nil {
		return nil
	}
	for _, m := range s.past {
		s.weights(m)
	}
	s.past = s.past[:0]
	if err := s.believe(ctx); err != nil {
		return err
	}
	for {
		begun := s.work.Now()
		e := s.core.Decide(time.Now().UnixNano())
		if e == nil {
			return nil
		}
		s.work.decided(begun, e)
		if err := s.effect(ctx, e); err != nil {
			return err
		}
	}
}

// effect makes an entry durable, and only then has its tasks played.
func (s *session) effect(ctx context.Context, e *subjects.Entry) error {
	e.Writer, e.Letters = s.cfg.Writer, s.letters
	data, err := subjects.EncodeMessage(e)
	if err == nil && len(e.State) > 0 && int64(len(data)) > s.cfg.Conn.MaxPayload()-headroom {
		s.core.DropState(e)
		data, err = subjects.EncodeMessage(e)
	}
	if err != nil {
		return err
	}
	begun := s.work.Now()
	seq, err := bus.Append(ctx, s.cfg.Conn, s.cfg.Run.LedgerSubject(), nil, data, s.head)
	if err != nil {
		return fmt.Errorf("append to the ledger: %w", err)
	}
	s.work.did(s.work.publish, begun)
	s.head, s.standby = seq, s.cfg.Standby
	s.core.Appended(e, seq)
	s.note(e)
	return s.queue(ctx, s.core.Plays(e))
}

func (s *session) queue(ctx context.Context, plays []grouper.Play) error {
	if len(plays) == 0 || len(s.sources) == 0 {
		return nil
	}
	tasks := make([]*subjects.Task, len(plays))
	for i := range plays {
		if tasks[i] = s.task(&plays[i]); s.signer != nil {
			t := tasks[i]
			t.Token = s.signer.Token(t.Kind, t.Group, t.Slot, t.Attempt)
		}
	}
	begun := s.work.Now()
	if _, err := bus.PublishTasks(ctx, s.cfg.Conn, s.cfg.Run, tasks); err != nil {
		return fmt.Errorf("queue %d tasks: %w", len(tasks), err)
	}
	s.work.did(s.work.issue, begun, spans.Arg{Key: s.work.tasks, Value: float64(len(tasks))})
	return nil
}

// hear notes how far the inspector says it is, and its letters.
func (s *session) hear(m *nats.Msg) {
	seq, err := strconv.ParseUint(string(m.Data), 10, 64)
	if err != nil {
		return
	}
	s.dog.inspector(time.Now())
	if seq > s.hint {
		letters, err := strconv.ParseUint(m.Header.Get(subjects.HeaderLetters), 10, 64)
		s.hint, s.hintLetters, s.hintKnown = seq, letters, err == nil
	}
}

// believe takes the inspector's word once all its dead letters are noted: the
// hint travels outside any stream and may overtake them.
func (s *session) believe(ctx context.Context) error {
	if s.hint <= s.report.inspected {
		return nil
	}
	hint := s.hint
	last, err := s.lastLetter(ctx)
	if err != nil {
		return err
	}
	for s.letters < last {
		late := time.NewTimer(lettersLate)
		select {
		case m := <-s.lettersCh:
			for i := range m {
				s.letter(&m[i])
			}
		case <-late.C:
			if last, err = s.lastHeld(ctx, subjects.DeadLetter); err != nil {
				return err
			}
		case <-ctx.Done():
			late.Stop()
			return ctx.Err()
		}
		late.Stop()
	}
	s.report.inspected = hint
	s.core.Inspected(hint)
	return nil
}

// lastLetter is how far DEADLETTER must be read for the hint. The hint says it,
// unless that is further than was read: then it may be purged, and is looked up.
func (s *session) lastLetter(ctx context.Context) (uint64, error) {
	if s.hintKnown && s.hintLetters <= s.letters {
		return 0, nil
	}
	state, err := bus.StreamState(ctx, s.cfg.Conn, s.cfg.Run, subjects.DeadLetter)
	if err != nil || state.Msgs == 0 {
		return 0, err
	}
	return state.LastSeq, nil
}

// lettersLate is how long a letter is waited for before it is asked whether the
// server still has it.
const lettersLate = time.Second

// lastHeld is the sequence of the last message that a stream has, 0 if it has none.
// The last one that it counts may be lost.
func (s *session) lastHeld(ctx context.Context, stream subjects.Stream) (uint64, error) {
	last, err := bus.Last(ctx, s.cfg.Conn, s.cfg.Run.StreamName(stream), s.cfg.Run.Filter(stream))
	if errors.Is(err, bus.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up the end of %s: %w", stream, err)
	}
	return last.Seq, nil
}

// checkHead ends the session when another grouper wrote.
func (s *session) checkHead(ctx context.Context) error {
	last, err := bus.Last(ctx, s.cfg.Conn, s.cfg.Run.StreamName(subjects.Ledger), s.cfg.Run.LedgerSubject())
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return nil
	case err != nil:
		return err
	case last.Seq != s.head:
		return errResync
	}
	return nil
}

// weights notes an event of WEIGHTS. One that cannot be read changes nothing.
func (s *session) weights(m *bus.Msg) {
	var err error
	at, run := m.Time.UnixNano(), s.cfg.Run
	switch m.Subject {
	case run.WeightsSubject(subjects.EventCommit):
		err = decode(m, func(e *subjects.CommitEvent) { s.core.Commit(m.Seq, at, e) })
	case run.WeightsSubject(subjects.EventResumed):
		err = decode(m, func(e *subjects.ResumedEvent) { s.core.Resumed(m.Seq, at, e) })
	case run.WeightsSubject(subjects.EventVersion):
		err = decode(m, func(e *subjects.VersionEvent) { s.core.Version(m.Seq, e) })
	case run.WeightsSubject(subjects.EventCheckpoint), run.WeightsSubject(subjects.EventPurged):
	default:
		err = decode(m, func(e *subjects.AckEvent) { s.core.Ack(m.Seq, e) })
	}
	if err != nil {
		s.cfg.Log.Warn().Err(err).Str("subject", m.Subject).Uint64("seq", m.Seq).Msg("event of the trainer")
	}
	s.core.Weights(m.Seq)
}

func decode[T any](m *bus.Msg, fn func(*T)) error {
	v := new(T)
	if err := subjects.DecodeMessage(m.Data, v); err != nil {
		return err
	}
	fn(v)
	return nil
}
