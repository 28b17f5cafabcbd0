package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/headrace/headrace/consumers/show"
	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Requeued is what became of one trajectory of a dead letter.
type Requeued struct {
	Letter     uint64 `json:"letter"`
	Trajectory string `json:"trajectory,omitempty"` // as it is published: perhaps a newer attempt
	// Fault is why it is left in DEADLETTER.
	Fault string `json:"fault,omitempty"`
	// Outlook is what the grouper will do with it, as far as the ledger tells.
	Outlook string `json:"outlook,omitempty"`
	// Sequence is its message in ROLLOUTS; 0 while it is not published.
	Sequence uint64 `json:"sequence,omitempty"`
	// Before is set when an earlier call published it.
	Before bool `json:"before,omitempty"`
}

// RequeueOptions choose what is requeued.
type RequeueOptions struct {
	LetterFilter
	// Check only says what would happen.
	Check bool
	// Before, when set, is told of each trajectory that passes, before it is published.
	Before func(Requeued)
}

// RequeueLetters inspects dead letters again, with this build. What passes now
// is published as a bundle of its own, once; the letter stays, since it is what
// rejects the first copy.
func RequeueLetters(ctx context.Context, s Source, run subjects.Run, o RequeueOptions) ([]Requeued, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := join(ctx, conn, run, s.Log)
	if err != nil {
		return nil, err
	}
	found, err := show.FindLetters(ctx, conn, run, o.LetterFilter)
	if err != nil {
		return nil, err
	}
	var cases []*revived
	for i := range found {
		more, err := m.reopen(ctx, &found[i].Letter)
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	if err := m.outlook(ctx, cases); err != nil {
		return nil, err
	}
	results := make([]Requeued, 0, len(cases))
	for _, c := range cases {
		r, err := m.requeue(ctx, c, o)
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

// revived is one trajectory of a dead letter, inspected again.
type revived struct {
	letter  uint64
	item    int
	entry   subjects.IndexEntry
	body    []byte
	fault   error // why it does not pass
	outlook string
}

// reopen inspects what a letter is about again, as the inspector does. It needs
// the message of ROLLOUTS: a letter has no index entry to compare the body with.
func (m *member) reopen(ctx context.Context, l *bus.Letter) ([]*revived, error) {
	c := &revived{letter: l.Number, item: l.Item}
	src, err := show.Source(ctx, m.conn, m.run, l)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		c.fault = fmt.Errorf("message %d of %s, which has its index entry, is purged: the run is past it", l.Sequence, l.Source)
		return []*revived{c}, nil
	case errors.Is(err, bus.ErrMalformed):
		c.fault = err
		return []*revived{c}, nil
	case err != nil:
		return nil, err
	case src == nil:
		c.fault = fmt.Errorf("it is no trajectory: stage %s could not use message %d of %s", l.Stage, l.Sequence, l.Source)
		return []*revived{c}, nil
	}
	b, err := bus.OpenBundle(src.Seq, src.Header, src.Data)
	if err == nil && l.Item >= len(b.Items) {
		err = fmt.Errorf("message %d has %d trajectories", src.Seq, len(b.Items))
	}
	if err != nil {
		c.fault = err
		return []*revived{c}, nil
	}
	if l.Item != bus.WholeMessage {
		return []*revived{m.inspect(l.Number, b, l.Item)}, nil
	}
	var all []*revived
	for i := range b.Items {
		all = append(all, m.inspect(l.Number, b, i))
	}
	return all, nil
}

func (m *member) inspect(letter uint64, b *bus.Bundle, item int) *revived {
	it := &b.Items[item]
	c := &revived{letter: letter, item: item, entry: it.Entry, body: b.Body(item), fault: it.Err}
	if c.fault == nil {
		var v subjects.BodyView
		if v, c.fault = subjects.Inspect(c.body, &it.Entry, m.tok.VocabSize()); c.fault == nil && v.Status.Trained() {
			c.fault = m.recipe.Bridge.Fits(v.Segments, m.maxSegments())
		}
	}
	return c
}

// as makes the trajectory a later attempt at its slot: nothing more is taken of
// one that was rejected.
func (c *revived) as(a subjects.Attempt) error {
	t, err := subjects.DecodeTrajectory(c.body)
	if err != nil {
		return err
	}
	t.Attempt = a
	var buf bytes.Buffer
	if err := subjects.EncodeTrajectory(&buf, t); err != nil {
		return err
	}
	c.body, c.entry = buf.Bytes(), t.Index()
	return nil
}

// requeue publishes one trajectory, if it passes.
func (m *member) requeue(ctx context.Context, c *revived, o RequeueOptions) (Requeued, error) {
	r := Requeued{Letter: c.letter, Outlook: c.outlook}
	if c.entry.Group != "" {
		r.Trajectory = c.entry.ID()
	}
	if c.fault != nil {
		r.Fault, r.Outlook = c.fault.Error(), ""
		return r, nil
	}
	if o.Before != nil {
		o.Before(r)
	}
	if o.Check {
		return r, nil
	}
	if err := m.sign(ctx, &c.entry); err != nil {
		return r, err
	}
	var err error
	r.Sequence, r.Before, err = bus.Requeue(ctx, m.conn, m.run, c.letter, c.item, c.entry, c.body)
	return r, err
}

// sign gives an entry the token of its lease, in a run that has them.
func (m *member) sign(ctx context.Context, e *subjects.IndexEntry) error {
	key, err := m.leaseKey(ctx)
	if err == nil && len(key) > 0 {
		e.Token = subjects.LeaseToken(key, e.Kind, e.Group, e.Slot, e.Attempt)
	}
	return err
}

// leaseKey is the secret behind the run's lease tokens; nil if it has none.
func (m *member) leaseKey(ctx context.Context) ([]byte, error) {
	if m.recipe.Grouper.Source == grouper.SourceExternal {
		return nil, nil
	}
	key, err := bus.LeaseKey(ctx, m.conn, m.run)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, nil
	}
	return key, err
}
