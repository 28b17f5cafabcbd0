package trainerbridge

import (
	"context"
	"errors"
	"fmt"
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

// graves lists what earlier inspections have dead-lettered: a bridge that starts
// again must not do so twice.
func (in *inspector) graves(ctx context.Context) (map[grave]bool, error) {
	stream, subject := in.run.StreamName(subjects.DeadLetter), in.run.DeadLetterSubject(subjects.InspectStage)
	known := map[grave]bool{}
	head, err := bus.Last(ctx, in.conn, stream, subject)
	if errors.Is(err, bus.ErrNotFound) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	err = bus.FollowStreamHeaders(ctx, in.conn, stream, subject, 1, func(letters []bus.HeaderMsg) error {
		for i := range letters {
			h := letters[i].Header
			seq, err := strconv.ParseUint(h.Get(subjects.HeaderSequence), 10, 64)
			item := bus.WholeMessage
			if v := h.Get(subjects.HeaderItem); v != "" && err == nil {
				item, err = strconv.Atoi(v)
			}
			if err == nil {
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
	return known, err
}

// fullPause is how long a full DEADLETTER is left before another try.
const fullPause = 2 * time.Second

// bury stores a dead letter, once. A full stream holds the inspection, and with
// it the grouping of what comes after, until somebody makes room.
func (in *inspector) bury(ctx context.Context, m *bus.Msg, item int, id string, data []byte, fault error) error {
	in.stats.rejected.Add(1)
	if in.known[grave{m.Seq, item}] {
		return nil
	}
	letter := bus.DeadLetter{Stage: subjects.InspectStage, Reason: fault.Error(), Source: in.run.StreamName(subjects.Rollouts),
		Sequence: m.Seq, Item: item, ID: id, Data: data}
	for {
		_, err := bus.Bury(ctx, in.conn, in.run, letter)
		if err == nil {
			break
		}
		if !errors.Is(err, bus.ErrStreamFull) {
			return fmt.Errorf("dead-letter rollouts message %d: %w", m.Seq, err)
		}
		in.log.Warn().Uint64("seq", m.Seq).Err(err).Msg("inspection waits: purge the dead letters")
		select {
		case <-time.After(fullPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	in.log.Warn().Uint64("seq", m.Seq).Int("item", item).Str("id", id).Err(fault).Msg("trajectory is malformed, dead-lettered")
	in.onEvent(Event{Kind: Rejected, Text: fmt.Sprintf("%s in rollouts message %d: %v", id, m.Seq, fault)})
	return nil
}
