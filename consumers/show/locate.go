package show

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// ErrMissing is wrapped when a run has no such trajectory, or its body is gone.
var ErrMissing = errors.New("not there")

// Body is a trajectory as it lies in the log.
type Body struct {
	subjects.Address
	Time       time.Time // when the server stored it
	Bytes      int       // of its body
	Producer   string
	Trajectory *subjects.Trajectory
}

// Find reads the trajectory with the id group/slot/attempt.
func Find(ctx context.Context, c *bus.Conn, run subjects.Run, id string) (*Body, error) {
	at, err := Locate(ctx, c, run, id)
	if err != nil {
		return nil, err
	}
	b, err := Fetch(ctx, c, run, at)
	if err == nil && b.Trajectory.ID() != id {
		err = fmt.Errorf("at %d.%d lies %s, not %s, as it should (`headrace audit %s` says what else is wrong)", at.Seq, at.Index, b.Trajectory.ID(), id, run)
	}
	return b, err
}

// Fetch reads the trajectory at an address.
func Fetch(ctx context.Context, c *bus.Conn, run subjects.Run, at subjects.Address) (out *Body, err error) {
	err = FetchAll(ctx, c, run, bus.FetchConfig{}, []subjects.Address{at}, func(_ int, b *Body, err error) error {
		out = b
		return err
	})
	return out, err
}

// FetchAll reads the trajectories at some addresses and hands each to fn with its
// place in the list, or why it cannot be read: purged ([ErrMissing]) or malformed.
// One call of fn ends before the next.
func FetchAll(ctx context.Context, c *bus.Conn, run subjects.Run, o bus.FetchConfig, list []subjects.Address, fn func(int, *Body, error) error) error {
	at, had := map[uint64][]int{}, map[uint64]bool{}
	var want []bus.SeqSize
	for i, a := range list {
		if at[a.Seq] == nil {
			want = append(want, bus.SeqSize{Seq: a.Seq})
		}
		at[a.Seq] = append(at[a.Seq], i)
	}
	err := bus.NewFetcher(c, run.StreamName(subjects.Rollouts), o).Fetch(ctx, want, func(seq uint64, hdr nats.Header, data []byte) error {
		had[seq] = true
		b, err := bus.OpenBundle(seq, hdr, data)
		for _, i := range at[seq] {
			var body *Body
			fault := err
			if fault == nil {
				body, fault = open(b, hdr, list[i])
			}
			if err := fn(i, body, fault); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, bus.ErrNotFound) && !errors.Is(err, bus.ErrMalformed) {
		return err
	}
	for _, w := range want {
		for _, i := range at[w.Seq] {
			if !had[w.Seq] {
				if err := fn(i, nil, gone(run, w.Seq, err)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// gone says why a message did not come.
func gone(run subjects.Run, seq uint64, err error) error {
	if errors.Is(err, bus.ErrMalformed) {
		return err
	}
	return fmt.Errorf("message %d of %s is %w: it was purged", seq, run.StreamName(subjects.Rollouts), ErrMissing)
}

// open decodes one trajectory of a bundle.
func open(b *bus.Bundle, hdr nats.Header, at subjects.Address) (*Body, error) {
	if at.Index >= len(b.Items) {
		return nil, fmt.Errorf("trajectory %d of message %d is %w: it has %d", at.Index, at.Seq, ErrMissing, len(b.Items))
	}
	raw := b.Body(at.Index)
	if raw == nil {
		return nil, b.Items[at.Index].Err
	}
	t, err := subjects.DecodeTrajectory(raw)
	if err != nil {
		return nil, err
	}
	out := &Body{Address: at, Bytes: len(raw), Producer: b.Producer, Trajectory: t}
	if v := hdr.Get("Nats-Time-Stamp"); v != "" {
		out.Time, _ = time.Parse(time.RFC3339Nano, v) // zero where it is none
	}
	return out, nil
}

// Locate finds where a trajectory lies: as the ledger says, where a verdict names
// it, else by the headers of ROLLOUTS from where its group was issued on.
func Locate(ctx context.Context, c *bus.Conn, run subjects.Run, id string) (at subjects.Address, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 {
		return at, fmt.Errorf("trajectory %q: want group/slot/attempt, as in t17/3/0", id)
	}
	s := search{group: subjects.GroupID(parts[0]), id: id}
	if s.ordinal, err = strconv.ParseUint(strings.TrimPrefix(parts[0], "t"), 10, 64); err == nil {
		s.numbered = subjects.TrainGroup(s.ordinal) == s.group
	}
	if err := entries(ctx, c, run, s.entry); err != nil {
		return at, err
	}
	if s.at.Seq > 0 {
		return s.at, nil
	}
	return scan(ctx, c, run, id, s.after+1)
}

// search looks for one trajectory in the ledger.
type search struct {
	group    subjects.GroupID
	id       string
	ordinal  uint64
	numbered bool   // it is the training group of that ordinal
	after    uint64 // nothing of the group lies in ROLLOUTS up to here
	at       subjects.Address
}

// entry looks at one entry; the verdict on the group is enough.
func (s *search) entry(_ uint64, e *subjects.Entry) error {
	for _, i := range e.Issued {
		if s.numbered && i.Kind == subjects.Train && i.First <= s.ordinal && s.ordinal-i.First < uint64(max(i.Count, 0)) {
			s.after = e.Rollouts
		}
	}
	for i := range e.Verdicts {
		if e.Verdicts[i].Group != s.group {
			continue
		}
		for _, m := range e.Verdicts[i].Members {
			if subjects.TrajectoryID(s.group, m.Slot, m.Attempt) == s.id {
				s.at = subjects.Address{Seq: m.Seq, Index: m.Index}
			}
		}
		return errEnough
	}
	return nil
}

// scan finds a trajectory in the index of ROLLOUTS, from a sequence on.
func scan(ctx context.Context, c *bus.Conn, run subjects.Run, id string, from uint64) (at subjects.Address, err error) {
	state, err := bus.StreamState(ctx, c, run, subjects.Rollouts)
	if err != nil {
		return at, err
	}
	missing := fmt.Errorf("run %s has no trajectory %s: %w", run, id, ErrMissing)
	if state.Msgs == 0 || from > state.LastSeq {
		return at, missing
	}
	err = bus.EachHeaders(ctx, c, run.StreamName(subjects.Rollouts), "", max(from, state.FirstSeq), func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			for k, text := range msgs[i].Header[subjects.HeaderIndex] {
				if e, err := subjects.ParseIndex(text); err == nil && e.ID() == id {
					at = subjects.Address{Seq: msgs[i].Seq, Index: k}
					return errEnough
				}
			}
			if msgs[i].Seq >= state.LastSeq {
				return missing
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		return at, nil
	case err == nil:
		return at, missing
	}
	return at, err
}
