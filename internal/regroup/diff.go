package regroup

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Side is one of two runs that are compared.
type Side struct {
	Conn *bus.Conn
	Run  subjects.Run
}

// Difference says where the batches of two runs part.
type Difference struct {
	V int `json:"v"`
	// Runs, the first and the second.
	Runs [2]subjects.Run `json:"runs"`
	// Same: all batches of one are those of the other: the same groups,
	// trajectories and advantages, token by token.
	Same bool `json:"same"`
	// FirstStep whose batches differ, and Why.
	FirstStep subjects.Step `json:"first_step,omitempty"`
	Why       string        `json:"why,omitempty"`
	Ledgers   [2]Account    `json:"ledgers"`
}

// Diff compares the batches of two runs, step by step, as far as they have come.
func Diff(ctx context.Context, a, b Side) (*Difference, error) {
	d := &Difference{V: Version, Runs: [2]subjects.Run{a.Run, b.Run}}
	var sides [2]*account
	var batches [2]map[subjects.Step]*subjects.Batch
	for i, s := range []Side{a, b} {
		sides[i], batches[i] = newAccount(), map[subjects.Step]*subjects.Batch{}
		sides[i].apart = true
		err := s.entries(ctx, func(e *subjects.Entry) {
			sides[i].entry(e)
			for k := range e.Batches {
				batches[i][e.Batches[k].Step] = &e.Batches[k]
			}
		})
		if err == nil {
			err = s.commits(ctx, sides[i])
		}
		if err := errors.Join(err, sides[i].err); err != nil {
			return nil, err
		}
		d.Ledgers[i] = sides[i].public()
	}
	d.FirstStep, d.Why = firstDifference(sides[0], sides[1])
	for _, s := range sides[0].steps {
		if d.FirstStep > 0 && s.step >= d.FirstStep {
			break
		}
		why, err := bodies(ctx, a, b, batches[0][s.step], batches[1][s.step])
		if err != nil {
			return nil, err
		}
		if why != "" {
			d.FirstStep, d.Why = s.step, why
		}
	}
	d.Same = d.FirstStep == 0
	return d, nil
}

var errEnd = errors.New("read to the end")

// entries reads the ledger.
func (s Side) entries(ctx context.Context, fn func(*subjects.Entry)) error {
	state, err := bus.StreamState(ctx, s.Conn, s.Run, subjects.Ledger)
	if errors.Is(err, bus.ErrNoStream) || errors.Is(err, bus.ErrNotFound) {
		return fmt.Errorf("no run %s on this bus: `headrace runs` lists what there is", s.Run)
	}
	if err != nil || state.Msgs == 0 {
		return err
	}
	err = bus.Each(ctx, s.Conn, s.Run.StreamName(subjects.Ledger), "", state.FirstSeq, func(m *bus.Msg) error {
		e := &subjects.Entry{}
		if err := subjects.DecodeMessage(m.Data, e); err != nil {
			return fmt.Errorf("read ledger entry %d of %s: %w", m.Seq, s.Run, err)
		}
		fn(e)
		if m.Seq >= state.LastSeq {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// commits notes when the trainer had applied its steps.
func (s Side) commits(ctx context.Context, a *account) error {
	return bus.Each(ctx, s.Conn, s.Run.StreamName(subjects.Weights), s.Run.WeightsSubject(subjects.EventCommit), 1, func(m *bus.Msg) error {
		var c subjects.CommitEvent
		if subjects.DecodeMessage(m.Data, &c) == nil { // else it says nothing
			a.commit(c.Step, m.Time.UnixNano())
			a.pauses.commit(&c, m.Time.UnixNano())
		}
		return nil
	})
}

// bodies compares what two batches, equal by their manifests, train on. Bodies
// with the same checksum are the same.
func bodies(ctx context.Context, a, b Side, x, y *subjects.Batch) (why string, err error) {
	for i := range x.Groups {
		for k := range x.Groups[i].Members {
			m, n := &x.Groups[i].Members[k], &y.Groups[i].Members[k]
			if m.Checksum == n.Checksum && m.Length == n.Length {
				continue
			}
			one, err := a.body(ctx, m)
			if err != nil {
				return "", err
			}
			other, err := b.body(ctx, n)
			if err != nil {
				return "", err
			}
			if at := segments(one.Segments, other.Segments); at != "" {
				return fmt.Sprintf("trajectory %s: %s", subjects.TrajectoryID(x.Groups[i].Group, m.Slot, m.Attempt), at), nil
			}
		}
	}
	return "", nil
}

// segments says where two trajectories first differ for a trainer.
func segments(a, b []subjects.Segment) string {
	if len(a) != len(b) {
		return fmt.Sprintf("%d segments in the first, %d in the second", len(a), len(b))
	}
	for i := range a {
		for t := range min(len(a[i].Tokens), len(b[i].Tokens)) {
			if a[i].Tokens[t] != b[i].Tokens[t] {
				return fmt.Sprintf("token %d of segment %d is %d in the first, %d in the second", t, i, a[i].Tokens[t], b[i].Tokens[t])
			}
		}
		if !reflect.DeepEqual(a[i], b[i]) {
			return fmt.Sprintf("segment %d has the same tokens, with other logprobs, versions or masks", i)
		}
	}
	return ""
}

// body reads the trajectory of a member.
func (s Side) body(ctx context.Context, m *subjects.Member) (t *subjects.Trajectory, err error) {
	err = bus.NewFetcher(s.Conn, s.Run.StreamName(subjects.Rollouts), bus.FetchConfig{}).Fetch(ctx, []bus.SeqSize{{Seq: m.Seq, Size: m.Length}}, func(seq uint64, hdr nats.Header, data []byte) error {
		b, err := bus.OpenBundle(seq, hdr, data)
		if err != nil {
			return err
		}
		if m.Index >= len(b.Items) || b.Body(m.Index) == nil {
			return fmt.Errorf("%w: no trajectory %d in message %d", bus.ErrMalformed, m.Index, seq)
		}
		t, err = subjects.DecodeTrajectory(b.Body(m.Index))
		return err
	})
	if err != nil {
		err = fmt.Errorf("compare the bodies of run %s: %w", s.Run, err)
	}
	return t, err
}
