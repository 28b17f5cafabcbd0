package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// errEnough ends a follower that has read what there was.
var errEnough = errors.New("read to the end")

// readTo reads a stream up to a sequence.
func readTo(ctx context.Context, c *bus.Conn, stream, filter string, from, to uint64, fn func(*bus.Msg) error) error {
	if from > to {
		return nil
	}
	err := bus.Each(ctx, c, stream, filter, from, func(m *bus.Msg) error {
		if m.Seq <= to {
			if err := fn(m); err != nil {
				return err
			}
		}
		if m.Seq >= to {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// ledger reads the entries from the newest snapshot on.
func (s *service) ledger(ctx context.Context) ([]grouper.Record, error) {
	c, stream, subject := s.cfg.Conn, s.cfg.Run.StreamName(subjects.Ledger), s.cfg.Run.LedgerSubject()
	last, err := bus.Last(ctx, c, stream, subject)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the ledger's head: %w", err)
	}
	head, err := record(last)
	if err != nil {
		return nil, err
	}
	if len(head.Entry.State) > 0 {
		return []grouper.Record{head}, nil
	}
	var records []grouper.Record
	err = readTo(ctx, c, stream, "", max(head.Entry.Snapshot, 1), last.Seq, func(m *bus.Msg) error {
		r, err := record(m)
		records = append(records, r)
		return err
	})
	return records, err
}

func record(m *bus.Msg) (grouper.Record, error) {
	e := &subjects.Entry{}
	if err := subjects.DecodeMessage(m.Data, e); err != nil {
		return grouper.Record{}, fmt.Errorf("ledger entry %d: %w", m.Seq, err)
	}
	return grouper.Record{Seq: m.Seq, Entry: e}, nil
}

// restore rebuilds the core up to the ledger's head; what ROLLOUTS has beyond
// is for the session's followers.
func (s *session) restore(ctx context.Context) error {
	records, err := s.ledger(ctx)
	if err != nil {
		return err
	}
	if n := len(records); n > 0 {
		s.head = records[n-1].Seq
	}
	var replay *grouper.Replay
	weigh := func(upTo uint64) {
		for len(s.past) > 0 && s.past[0].Seq <= upTo {
			s.weights(s.past[0])
			s.past = s.past[1:]
		}
		replay.Core.Weights(max(s.weightsSeen(replay.Core), upTo))
	}
	if replay, err = grouper.NewReplay(s.cfg.Grouper, s.supply, records, weigh); err != nil {
		return err
	}
	s.core, s.replay = replay.Core, replay
	if err := s.readPast(ctx); err != nil {
		return err
	}
	return s.readRejections(ctx)
}

func (s *session) weightsSeen(c *grouper.Core) uint64 { _, w := c.Marks(); return w }

// readPast reads the events of WEIGHTS that there are after the snapshot.
func (s *session) readPast(ctx context.Context) error {
	state, err := bus.StreamState(ctx, s.cfg.Conn, s.cfg.Run, subjects.Weights)
	if err != nil {
		return err
	}
	s.weightsFrom = s.weightsSeen(s.core) + 1
	return readTo(ctx, s.cfg.Conn, s.cfg.Run.StreamName(subjects.Weights), "", s.weightsFrom, state.LastSeq, func(m *bus.Msg) error {
		s.past = append(s.past, m)
		s.weightsFrom = m.Seq + 1
		return nil
	})
}

// readRejections notes all that the inspector rejected so far.
func (s *session) readRejections(ctx context.Context) error {
	state, err := bus.StreamState(ctx, s.cfg.Conn, s.cfg.Run, subjects.DeadLetter)
	s.lettersFrom = max(state.FirstSeq, 1)
	if err != nil || state.Msgs == 0 {
		return err
	}
	err = bus.EachHeaders(ctx, s.cfg.Conn, s.cfg.Run.StreamName(subjects.DeadLetter), "", s.lettersFrom, func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			s.letter(&msgs[i])
			if s.lettersFrom = msgs[i].Seq + 1; msgs[i].Seq >= state.LastSeq {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// letter notes a rejection.
func (s *session) letter(m *bus.HeaderMsg) {
	s.letters = max(s.letters, m.Seq)
	if m.Subject != s.cfg.Run.DeadLetterSubject(subjects.InspectStage) || m.Header.Get(subjects.HeaderSource) != s.cfg.Run.StreamName(subjects.Rollouts) {
		return
	}
	seq, err := strconv.ParseUint(m.Header.Get(subjects.HeaderSequence), 10, 64)
	if err != nil {
		return
	}
	a := subjects.Address{Seq: seq, Index: grouper.Whole}
	if item, err := strconv.Atoi(m.Header.Get(subjects.HeaderItem)); err == nil {
		a.Index = item
	}
	s.core.Reject(a)
	s.cfg.Log.Warn().Uint64("seq", seq).Str("trajectory", m.Header.Get(subjects.HeaderID)).
		Str("reason", m.Header.Get(subjects.HeaderReason)).Msg("malformed trajectory")
}
