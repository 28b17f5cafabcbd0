package trainerbridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// grave is where a rejected trajectory came from: message and place, or
// [bus.WholeMessage].
type grave struct {
	seq  uint64
	item int
}

// errCaughtUp ends a follow at the head of the stream as it was.
var errCaughtUp = errors.New("caught up")

// graves lists what earlier inspections have dead-lettered from a sequence on: a
// bridge that starts there again must not do so twice.
func (in *inspector) graves(ctx context.Context, from uint64) (map[grave]bool, error) {
	stream, subject := in.run.StreamName(subjects.DeadLetter), in.run.DeadLetterSubject(subjects.InspectStage)
	known := map[grave]bool{}
	head, err := bus.Last(ctx, in.conn, stream, subject)
	if errors.Is(err, bus.ErrNotFound) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	err = bus.EachHeaders(ctx, in.conn, stream, subject, 1, func(letters []bus.HeaderMsg) error {
		for i := range letters {
			h := letters[i].Header
			seq, err := strconv.ParseUint(h.Get(subjects.HeaderSequence), 10, 64)
			item := bus.WholeMessage
			if v := h.Get(subjects.HeaderItem); v != "" && err == nil {
				item, err = strconv.Atoi(v)
			}
			if err == nil && seq >= from {
				known[grave{seq, item}] = true
			}
			if letters[i].Seq >= head.Seq {
				return errCaughtUp
			}
		}
		return nil
	})
	if errors.Is(err, errCaughtUp) {
		err = nil
	}
	in.letters.Store(head.Seq)
	return known, err
}

// letter is a dead letter of the inspector.
func (in *inspector) letter(m *bus.Msg, item int, id string, data []byte, fault error) bus.DeadLetter {
	return bus.DeadLetter{Stage: subjects.InspectStage, Reason: fault.Error(), Source: in.run.StreamName(subjects.Rollouts),
		Sequence: m.Seq, Item: item, ID: id, Data: data}
}

// bury stores a dead letter, once, and tells of it.
func (in *inspector) bury(ctx context.Context, letter bus.DeadLetter) error {
	if in.known[grave{letter.Sequence, letter.Item}] {
		return nil
	}
	if err := in.store(ctx, letter); err != nil {
		return fmt.Errorf("dead-letter rollouts message %d: %w", letter.Sequence, err)
	}
	in.log.Warn().Uint64("seq", letter.Sequence).Int("item", letter.Item).Str("id", letter.ID).Str("fault", letter.Reason).Msg("trajectory is malformed, dead-lettered")
	in.onEvent(Event{Kind: Rejected, Text: fmt.Sprintf("%s in rollouts message %d: %s", letter.ID, letter.Sequence, letter.Reason)})
	return nil
}

// fullPause is how long a DEADLETTER that cannot be made room in is left alone.
const fullPause = 2 * time.Second

// store makes a letter durable in a stream that may be full: the rejection must
// get through, or the grouper would wait for ever; the bytes need not. So a letter
// that does not fit goes without its body; if not even that fits, the oldest
// letters go that no grouper needs any more.
func (in *inspector) store(ctx context.Context, letter bus.DeadLetter) error {
	if len(letter.Data) > in.roomFor(ctx) {
		in.empty(&letter)
	}
	for {
		seq, err := bus.Bury(ctx, in.conn, in.run, letter)
		if err == nil {
			in.letters.Store(max(in.letters.Load(), seq)) // nobody else writes it
		}
		if !errors.Is(err, bus.ErrStreamFull) {
			return err
		}
		if len(letter.Data) > 0 {
			in.empty(&letter)
			continue
		}
		freed, err := in.sweep(ctx)
		if err == nil && freed {
			continue
		}
		in.log.Warn().Uint64("seq", letter.Sequence).Err(err).Msg("inspection waits: DEADLETTER is full of letters that are needed, drop some or raise its limit")
		select {
		case <-time.After(fullPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// empty takes the body out of a letter.
func (in *inspector) empty(letter *bus.DeadLetter) {
	in.stats.bodiless.Add(1)
	letter.Bytes, letter.Data = max(letter.Bytes, len(letter.Data)), nil
}

// roomFor is how many bytes the body of a letter may have: the last quarter of
// the stream is for letters without one.
func (in *inspector) roomFor(ctx context.Context) int {
	config, state, err := bus.StreamLimits(ctx, in.conn, in.run, subjects.DeadLetter)
	if err != nil || config.MaxBytes <= 0 {
		return math.MaxInt
	}
	return int(max(0, config.MaxBytes-config.MaxBytes/4-int64(state.Bytes)))
}

// sweepMost is how many letters one sweep looks at.
const sweepMost = 4096

// sweep removes the oldest letters whose trajectories are below the watermark: no
// group that is open or waits for its batch needs to know of them. It reports
// whether there were any.
func (in *inspector) sweep(ctx context.Context) (freed bool, err error) {
	low, err := in.start(ctx)
	if err != nil {
		return false, err
	}
	state, err := bus.StreamState(ctx, in.conn, in.run, subjects.DeadLetter)
	if err != nil || state.Msgs == 0 {
		return false, err
	}
	below, looked, gone := state.FirstSeq, 0, 0
	err = bus.EachHeaders(ctx, in.conn, in.run.StreamName(subjects.DeadLetter), "", below, func(letters []bus.HeaderMsg) error {
		for i := range letters {
			if looked++; in.needed(&letters[i], low) || looked > sweepMost || letters[i].Seq >= state.LastSeq {
				return errCaughtUp
			}
			below, gone = letters[i].Seq+1, gone+1
		}
		return nil
	})
	if err != nil && !errors.Is(err, errCaughtUp) {
		return false, err
	}
	if below == state.FirstSeq {
		return false, nil
	}
	if err := bus.Purge(ctx, in.conn, in.run, subjects.DeadLetter, below); err != nil {
		return false, err
	}
	in.stats.swept.Add(int64(gone))
	in.log.Warn().Uint64("below", below).Int("letters", gone).Msg("DEADLETTER is full: the oldest letters were dropped")
	return true, nil
}

// needed reports whether a letter rejects something from a sequence of ROLLOUTS on.
func (in *inspector) needed(m *bus.HeaderMsg, low uint64) bool {
	seq, err := strconv.ParseUint(m.Header.Get(subjects.HeaderSequence), 10, 64)
	return err == nil && seq >= low && m.Header.Get(subjects.HeaderSource) == in.run.StreamName(subjects.Rollouts)
}
