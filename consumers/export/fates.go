package export

import (
	"context"
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// fates is what the ledger says, by group and by address.
type fates struct {
	groups  map[subjects.GroupID]*closed
	members map[subjects.Address]member
}

// closed is a group's last verdict.
type closed struct {
	outcome        subjects.Outcome
	opened, closed int64
	unused         int
	members        int
}

// member is a trajectory that a group closed with.
type member struct {
	step      subjects.Step
	advantage float64
	masked    bool
}

// readFates folds the ledger, as far as it has come.
func readFates(ctx context.Context, c *bus.Conn, run subjects.Run) (*fates, error) {
	f := &fates{groups: map[subjects.GroupID]*closed{}, members: map[subjects.Address]member{}}
	err := readAll(ctx, c, run, subjects.Ledger, func(m *bus.Msg) error {
		var e subjects.Entry
		if err := subjects.DecodeMessage(m.Data, &e); err != nil {
			return fmt.Errorf("read ledger entry %d: %w", m.Seq, err)
		}
		f.entry(&e)
		return nil
	})
	return f, err
}

func (f *fates) entry(e *subjects.Entry) {
	for i := range e.Verdicts {
		v := &e.Verdicts[i]
		f.groups[v.Group] = &closed{v.Outcome, v.Opened, v.Closed, v.Unused, len(v.Members)}
		for k := range v.Members {
			m := &v.Members[k]
			f.members[subjects.Address{Seq: m.Seq, Index: m.Index}] = member{masked: m.Masked}
		}
	}
	for i := range e.Batches {
		for k := range e.Batches[i].Groups {
			for _, m := range e.Batches[i].Groups[k].Members {
				f.members[subjects.Address{Seq: m.Seq, Index: m.Index}] = member{e.Batches[i].Step, m.Advantage, m.Masked}
			}
		}
	}
}

// of is the fate of the trajectory at an address; nil if nothing is said.
func (f *fates) of(g subjects.GroupID, at subjects.Address) *Fate {
	v := f.groups[g]
	if v == nil {
		return nil
	}
	m, is := f.members[at]
	return &Fate{Outcome: v.outcome, Opened: v.opened, Closed: v.closed, Unused: v.unused,
		Member: is, Masked: m.masked, Step: m.step, Advantage: m.advantage, members: v.members}
}

var errEnough = errors.New("enough")

// readAll reads a stream from its start to what is its end now.
func readAll(ctx context.Context, c *bus.Conn, run subjects.Run, s subjects.Stream, fn func(*bus.Msg) error) error {
	state, err := bus.StreamState(ctx, c, run, s)
	if err != nil || state.Msgs == 0 {
		return err
	}
	err = bus.Each(ctx, c, run.StreamName(s), "", state.FirstSeq, func(m *bus.Msg) error {
		if m.Seq > state.LastSeq {
			return errEnough
		}
		if err := fn(m); err != nil {
			return err
		}
		if m.Seq == state.LastSeq {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
