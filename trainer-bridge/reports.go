package trainerbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
	"github.com/headrace/headrace/trainer-bridge/feed"
)

// resume announces that a trainer goes on behind a checkpoint and returns its
// incarnation, one more than the last. Ranks but the first take the incarnation
// that is, and announce nothing.
func (s *session) resume(ctx context.Context, checkpoint subjects.Step) (int, error) {
	subject := s.Run.WeightsSubject(subjects.EventResumed)
	for {
		var before subjects.ResumedEvent
		var seq uint64
		m, err := bus.Last(ctx, s.Conn, s.Run.StreamName(subjects.Weights), subject)
		if err == nil {
			seq, err = m.Seq, subjects.DecodeMessage(m.Data, &before)
		}
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			return 0, fmt.Errorf("read incarnation: %w", err)
		}
		if s.part.Rank != 0 {
			return before.Incarnation, nil
		}
		event := subjects.ResumedEvent{V: subjects.SchemaVersion, Step: checkpoint, Incarnation: before.Incarnation + 1, At: time.Now().UnixNano()}
		data, err := subjects.EncodeMessage(&event)
		if err != nil {
			return 0, err
		}
		_, err = bus.Append(ctx, s.Conn, subject, nil, data, seq)
		if err == nil {
			return event.Incarnation, nil
		}
		if !errors.Is(err, bus.ErrConflict) {
			return 0, fmt.Errorf("announce trainer: %w", err)
		}
	}
}

// report turns the trainer's reports into events, one after the other, and
// answers each once its event is durable.
func (s *session) report(ctx context.Context, reports <-chan feed.Frame) error {
	for {
		var f feed.Frame
		select {
		case f = <-reports:
		case <-ctx.Done():
			return ctx.Err()
		}
		if f.Type == feed.TypeBye {
			var b feed.Bye
			if err := f.Decode(&b); err != nil {
				return err
			}
			return &errBye{b.Reason}
		}
		if err := s.answerReport(ctx, f); err != nil {
			return err
		}
	}
}

// refusedError is a report that is wrong; the feed goes on.
type refusedError struct{ msg string }

func (e *refusedError) Error() string { return e.msg }

func refuse(format string, args ...any) error { return &refusedError{fmt.Sprintf(format, args...)} }

func (s *session) answerReport(ctx context.Context, f feed.Frame) error {
	var q feed.Request
	if err := f.Decode(&q); err != nil {
		return s.broken(err)
	}
	ok, err := s.apply(ctx, f)
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		s.Log.Warn().Str("report", f.Type.String()).Msg(refused.msg)
		return s.reply(feed.TypeError, feed.Refusal{ID: q.ID, Message: refused.msg})
	case errors.Is(err, feed.ErrProtocol):
		return s.broken(err)
	case err != nil:
		return fmt.Errorf("%s: %w", f.Type, err)
	}
	ok.ID = q.ID
	return s.reply(feed.TypeOK, ok)
}

// reply answers a report, if there is still somebody to hear it.
func (s *session) reply(t feed.Type, body any) error {
	if err := s.out.send(t, body); err != nil && s.present.Err() == nil {
		return err
	}
	return nil
}

// broken answers a frame that breaks the protocol and ends the session.
func (s *session) broken(err error) error {
	_ = s.out.send(feed.TypeError, feed.Refusal{Message: err.Error()})
	return err
}

func (s *session) apply(ctx context.Context, f feed.Frame) (feed.OK, error) {
	switch f.Type {
	case feed.TypeCommit:
		var m feed.Commit
		if err := f.Decode(&m); err != nil {
			return feed.OK{}, err
		}
		return feed.OK{}, s.commit(ctx, &m)
	case feed.TypeCheckpointed:
		var m feed.Checkpointed
		if err := f.Decode(&m); err != nil {
			return feed.OK{}, err
		}
		return feed.OK{}, s.checkpointed(ctx, &m)
	case feed.TypeWeights:
		var m feed.Weights
		if err := f.Decode(&m); err != nil {
			return feed.OK{}, err
		}
		return feed.OK{}, s.weights(ctx, &m)
	}
	var m feed.WaitWeights
	if err := f.Decode(&m); err != nil {
		return feed.OK{}, err
	}
	return s.fleet.wait(s.present, &m, s.incarnation)
}

// publish sends an event. Its id follows from incarnation and number, so a retry
// stores it once. Only the first rank speaks for the trainer.
func (s *session) publish(ctx context.Context, e subjects.WeightsEvent, number int64, event any) error {
	if s.part.Rank != 0 {
		return nil
	}
	data, err := subjects.EncodeMessage(event)
	if err != nil {
		return err
	}
	_, err = bus.Send(ctx, s.Conn, s.Run.WeightsSubject(e), fmt.Sprintf("%s/%d/%d", e, s.incarnation, number), nil, data)
	return err
}

func (s *session) commit(ctx context.Context, m *feed.Commit) error {
	if m.Step != s.committed+1 {
		return refuse("commit of step %d: the next is %d", m.Step, s.committed+1)
	}
	if last := s.lastDelivered(); m.Step > last {
		return refuse("commit of step %d: the last batch was step %d", m.Step, last)
	}
	event := subjects.CommitEvent{V: subjects.SchemaVersion, Step: m.Step, Incarnation: s.incarnation, Tokens: m.Tokens,
		TrainSeconds: m.TrainS, WaitSeconds: m.WaitS, Metrics: m.Metrics, At: time.Now().UnixNano()}
	if err := s.publish(ctx, subjects.EventCommit, int64(m.Step), &event); err != nil {
		return err
	}
	s.committed = m.Step
	s.doing.commits(m.Step, time.Now()) // before the gauges say which
	s.stats.say("")                     // what was said of the start is over
	s.stats.committed.Store(int64(m.Step))
	s.tell(Event{Kind: Committed, Step: m.Step, Commit: &event})
	return nil
}

func (s *session) checkpointed(ctx context.Context, m *feed.Checkpointed) error {
	if m.Step < s.checkpoint || m.Step > s.committed {
		return refuse("checkpoint of step %d: want one of %d to %d", m.Step, s.checkpoint, s.committed)
	}
	event := subjects.CheckpointEvent{V: subjects.SchemaVersion, Step: m.Step, Incarnation: s.incarnation, Path: m.Path, At: time.Now().UnixNano()}
	if err := s.publish(ctx, subjects.EventCheckpoint, int64(m.Step), &event); err != nil {
		return err
	}
	s.checkpoint = m.Step
	s.stats.checkpoint.Store(int64(m.Step))
	s.tell(Event{Kind: Checkpointed, Step: m.Step, Text: m.Path})
	return nil
}

func (s *session) weights(ctx context.Context, m *feed.Weights) error {
	if m.Version < 0 || int64(m.Version) > int64(s.committed) {
		return refuse("weights of version %d: the trainer is at %d", m.Version, s.committed)
	}
	if !filepath.IsAbs(m.Dir) && s.Paths.Weights != "" {
		m.Dir = filepath.Join(s.Paths.Weights, m.Dir)
	}
	if err := checkFiles(m.Dir, m.Files); err != nil {
		return refuse("weights of version %d: %v", m.Version, err)
	}
	event := subjects.VersionEvent{V: subjects.SchemaVersion, Version: m.Version, Step: m.Step, Incarnation: s.incarnation,
		Dir: m.Dir, Format: m.Format, Files: m.Files, At: time.Now().UnixNano()}
	if err := s.publish(ctx, subjects.EventVersion, int64(m.Version), &event); err != nil {
		return err
	}
	s.stats.version.Store(int64(m.Version))
	s.tell(Event{Kind: Published, Step: subjects.Step(m.Version), Text: m.Dir})
	return nil
}

func (s *session) tell(e Event) {
	if s.part.Rank == 0 {
		e.Incarnation = s.incarnation
		s.OnEvent(e)
	}
}

// checkFiles wants the files there, whole. Engines check their contents.
func checkFiles(dir string, files []subjects.File) error {
	if len(files) == 0 {
		return errors.New("no files")
	}
	for _, f := range files {
		if !filepath.IsLocal(f.Name) || strings.Contains(f.Name, "\\") {
			return fmt.Errorf("file name %q leaves its folder", f.Name)
		}
		if len(f.SHA256) != 64 {
			return fmt.Errorf("file %s has no SHA-256", f.Name)
		}
		info, err := os.Stat(filepath.Join(dir, f.Name))
		switch {
		case err != nil:
			return err
		case !info.Mode().IsRegular() || info.Size() != f.Bytes:
			return fmt.Errorf("file %s has %d bytes, not %d", f.Name, info.Size(), f.Bytes)
		}
	}
	return nil
}
