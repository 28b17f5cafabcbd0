package show

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// LetterDetail is all that can be read of a dead letter.
type LetterDetail struct {
	Letter
	Headers map[string][]string `json:"headers"`
	// Bytes of the body: the letter's own or, where it has none any more, those
	// of ROLLOUTS, if they are there.
	Raw  []byte `json:"-"`
	From string `json:"from"` // where Raw comes from; empty: there is none
	// Body is what can be decoded of it, Fault why not all of it can, and
	// FaultAt the byte at or just before which that lies; -1 with no Fault.
	Body    *Trajectory `json:"body,omitempty"`
	Fault   string      `json:"fault,omitempty"`
	FaultAt int         `json:"fault_at"`
	// Now is what this build finds wrong with it; empty: it would pass.
	Now string `json:"now,omitempty"`

	Decoded *subjects.Trajectory `json:"-"` // Body as it is printed
}

// ReadLetter reads a dead letter and decodes it as far as that goes.
func ReadLetter(ctx context.Context, c *bus.Conn, run subjects.Run, number uint64) (*LetterDetail, *Filed, error) {
	found, err := FindLetters(ctx, c, run, LetterFilter{Numbers: []uint64{number}})
	if err != nil {
		return nil, nil, err
	}
	requeued, err := bus.Requeued(ctx, c, run)
	if err != nil {
		return nil, nil, err
	}
	l := &found[0]
	d := &LetterDetail{Letter: Describe(l, requeued), Headers: l.Header, FaultAt: -1}
	return d, l, d.read(ctx, c, run, l)
}

// read gets the letter's bytes and decodes them as far as they go.
func (d *LetterDetail) read(ctx context.Context, c *bus.Conn, run subjects.Run, l *Filed) error {
	if err := bus.ReadLetter(ctx, c, run, &l.Letter); err != nil {
		return err
	}
	if len(l.Data) > 0 {
		d.Raw, d.From = l.Data, "the letter"
	}
	if len(l.Data) == 0 || len(l.Data) < l.Bytes {
		m, err := Source(ctx, c, run, &l.Letter)
		if err != nil && !errors.Is(err, bus.ErrNotFound) && !errors.Is(err, bus.ErrMalformed) {
			return err
		}
		if m != nil {
			d.Raw, d.From = m.Cut(l.Item), fmt.Sprintf("message %d of %s: the letter has not all of them", l.Sequence, l.Source)
		}
	}
	if len(d.Raw) == 0 {
		return nil
	}
	t, at, err := subjects.DecodePartial(d.Raw)
	if err != nil {
		d.Fault, d.FaultAt = err.Error(), at
	}
	if t.Group != "" || len(t.Segments) > 0 {
		d.Body, d.Decoded = View(t), t
	}
	return nil
}

// Original is a message of ROLLOUTS that a letter is about.
type Original struct {
	Seq    uint64
	Header nats.Header
	Data   []byte
}

// Source reads that message; nil for a letter of another stream.
func Source(ctx context.Context, c *bus.Conn, run subjects.Run, l *bus.Letter) (m *Original, err error) {
	stream := run.StreamName(subjects.Rollouts)
	if l.Source != stream || l.Sequence == 0 {
		return nil, nil
	}
	err = bus.NewFetcher(c, stream, bus.FetchConfig{}).Fetch(ctx, []bus.SeqSize{{Seq: l.Sequence}}, func(seq uint64, hdr nats.Header, data []byte) error {
		m = &Original{seq, hdr, data}
		return nil
	})
	return m, err
}

// Cut is the body of one trajectory, or all where that cannot be told apart.
func (m *Original) Cut(item int) []byte {
	if b, err := bus.OpenBundle(m.Seq, m.Header, m.Data); err == nil && item >= 0 && item < len(b.Items) {
		if raw := b.Raw(item); raw != nil {
			return raw
		}
	}
	return m.Data
}
