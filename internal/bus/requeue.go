package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/subjects"
)

// RequeueID is the message id of a trajectory that comes back from a dead letter.
func RequeueID(letter uint64, item int) string {
	return fmt.Sprintf("requeue/%d/%d", letter, item)
}

// requeues is what was published under [subjects.RequeueProducer] so far.
type requeues struct {
	last    uint64 // sequence of its last message
	counter uint64 // and that message's counter
	ids     map[string]uint64
}

// Requeued lists what came back from DEADLETTER: sequences in ROLLOUTS by
// [RequeueID], as far as ROLLOUTS still has them.
func Requeued(ctx context.Context, c *Conn, run subjects.Run) (map[string]uint64, error) {
	r, err := readRequeues(ctx, c, run)
	if err != nil {
		return nil, err
	}
	return r.ids, nil
}

func readRequeues(ctx context.Context, c *Conn, run subjects.Run) (*requeues, error) {
	r := &requeues{ids: map[string]uint64{}}
	stream, subject := run.StreamName(subjects.Rollouts), run.RolloutSubject(subjects.RequeueProducer)
	head, err := Last(ctx, c, stream, subject)
	if errors.Is(err, ErrNotFound) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	err = FollowStreamHeaders(ctx, c, stream, subject, 1, func(msgs []HeaderMsg) error {
		for i := range msgs {
			m := &msgs[i]
			r.last = m.Seq
			r.counter, _ = strconv.ParseUint(m.Header.Get(subjects.HeaderCounter), 10, 64)
			if !IsPart(m.Header) {
				r.ids[m.Header.Get(jetstream.MsgIDHeader)] = m.Seq
			}
			if m.Seq >= head.Seq {
				return errAll
			}
		}
		return nil
	})
	if errors.Is(err, errAll) {
		err = nil
	}
	return r, err
}

// Requeue publishes one trajectory of a dead letter as a bundle of its own and
// returns its sequence. Once is enough: a second call finds the first, which it
// reports by again, however long ago that was. Offset, Length and Checksum of e
// are filled in.
func Requeue(ctx context.Context, c *Conn, run subjects.Run, letter uint64, item int, e subjects.IndexEntry, body []byte) (seq uint64, again bool, err error) {
	id := RequeueID(letter, item)
	e.Offset, e.Length, e.Checksum = 0, len(body), subjects.Checksum(body)
	if _, err := subjects.ParseIndex(e.String()); err != nil {
		return 0, false, fmt.Errorf("requeue %s: %w: %w", e.ID(), ErrMalformed, err)
	}
	for tries := 0; ; tries++ {
		r, err := readRequeues(ctx, c, run)
		if err != nil {
			return 0, false, fmt.Errorf("requeue %s: %w", e.ID(), err)
		}
		if seq := r.ids[id]; seq > 0 {
			return seq, true, nil
		}
		seq, err = r.publish(ctx, c, run, id, e, body)
		if errors.Is(err, ErrConflict) && tries < maxAttempts {
			continue // somebody else requeues
		}
		if err != nil {
			return 0, false, fmt.Errorf("requeue %s: %w", e.ID(), err)
		}
		return seq, false, nil
	}
}

// publish appends to what was requeued before: of two that do so at once, one
// has to look again, so counters have no gap and nothing comes twice.
func (r *requeues) publish(ctx context.Context, c *Conn, run subjects.Run, id string, e subjects.IndexEntry, body []byte) (uint64, error) {
	one := func(ctx context.Context, hdr nats.Header, data []byte) (seq uint64, err error) {
		r.counter++
		h := withHeader(hdr, subjects.HeaderCounter, strconv.FormatUint(r.counter, 10))
		h[subjects.HeaderProducer] = []string{subjects.RequeueProducer}
		if IsPart(h) {
			delete(h, jetstream.MsgIDHeader) // the producer's own parts have the same
		}
		r.last, err = Append(ctx, c, run.RolloutSubject(subjects.RequeueProducer), h, data, r.last)
		return r.last, err
	}
	whole := nats.Header{jetstream.MsgIDHeader: {id}, subjects.HeaderIndex: {e.String()}}
	if limit := c.MaxPayload(); int64(len(body))+partSlack > min(limit, maxPartSize) {
		return publishParts(ctx, whole, body, limit, one)
	}
	return one(ctx, whole, body)
}
