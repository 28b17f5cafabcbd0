package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Letter is one line of `headrace deadletter ls`.
type Letter struct {
	Number     uint64    `json:"number"` // its sequence in DEADLETTER, and that of its stub's letter
	At         time.Time `json:"at"`
	Stage      string    `json:"stage"`
	Producer   string    `json:"producer,omitempty"`   // where it is still known
	Trajectory string    `json:"trajectory,omitempty"` // group/slot/attempt, where it could be read
	Reason     string    `json:"reason"`
	Source     string    `json:"source"` // stream and sequence that the bytes came from
	Sequence   uint64    `json:"sequence"`
	Item       int       `json:"item"`               // place in the bundle; -1 the whole message
	Bytes      int       `json:"bytes"`              // of the body, that are there
	Original   int       `json:"original"`           // that it had
	Dropped    time.Time `json:"dropped,omitzero"`   // when its body was dropped
	Requeued   []uint64  `json:"requeued,omitempty"` // as what messages of ROLLOUTS
}

// LetterFilter chooses dead letters. Its zero value is all that have not been dropped.
type LetterFilter struct {
	Numbers  []uint64 // these, dropped or not; one that is not there is an error
	Stage    string
	Producer string
	Reason   string // a part of the reason, in any case
	Dropped  bool   // those that were dropped as well
}

func (f *LetterFilter) takes(l *bus.Letter) bool {
	if len(f.Numbers) > 0 && !slices.Contains(f.Numbers, l.Number) {
		return false
	}
	return (l.Dropped.IsZero() || f.Dropped || len(f.Numbers) > 0) && (f.Stage == "" || f.Stage == l.Stage) &&
		strings.Contains(strings.ToLower(l.Reason), strings.ToLower(f.Reason))
}

// DeadLetters lists a run's dead letters, oldest first.
func DeadLetters(ctx context.Context, s Source, run subjects.Run, f LetterFilter) ([]Letter, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := findLetters(ctx, conn, run, f)
	if err != nil {
		return nil, err
	}
	requeued, err := bus.Requeued(ctx, conn, run)
	if err != nil {
		return nil, err
	}
	letters := make([]Letter, len(found))
	for i := range found {
		letters[i] = describe(&found[i], requeued)
	}
	return letters, nil
}

// located is a letter and who published what it is about.
type located struct {
	bus.Letter
	producer string
}

func describe(l *located, requeued map[string]uint64) Letter {
	d := Letter{Number: l.Number, At: l.Time.UTC(), Stage: l.Stage, Producer: l.producer, Trajectory: l.ID, Reason: l.Reason,
		Source: l.Source, Sequence: l.Sequence, Item: l.Item, Bytes: l.Size, Original: l.Bytes, Dropped: l.Dropped}
	prefix := strings.TrimSuffix(bus.RequeueID(l.Number, 0), "0")
	for id, seq := range requeued {
		if strings.HasPrefix(id, prefix) {
			d.Requeued = append(d.Requeued, seq)
		}
	}
	slices.Sort(d.Requeued)
	return d
}

// findLetters finds what a filter chooses.
func findLetters(ctx context.Context, c *bus.Conn, run subjects.Run, f LetterFilter) ([]located, error) {
	var found []located
	err := bus.Letters(ctx, c, run, func(l *bus.Letter) error {
		if f.takes(l) {
			found = append(found, located{Letter: *l})
		}
		return nil
	})
	if err == nil {
		err = nameProducers(ctx, c, run, found)
	}
	if err != nil {
		return nil, err
	}
	if f.Producer != "" {
		found = slices.DeleteFunc(found, func(l located) bool { return l.producer != f.Producer })
	}
	for _, n := range f.Numbers {
		if !slices.ContainsFunc(found, func(l located) bool { return l.Number == n }) {
			return nil, fmt.Errorf("run %s has no dead letter %d: `headrace deadletter ls %s` lists them", run, n, run)
		}
	}
	return found, nil
}

// nameProducers reads who published the messages that letters are about: from
// the letter, or from ROLLOUTS as far as it goes back.
func nameProducers(ctx context.Context, c *bus.Conn, run subjects.Run, letters []located) error {
	rollouts := run.StreamName(subjects.Rollouts)
	bySeq, first, last := map[uint64][]int{}, uint64(0), uint64(0)
	for i := range letters {
		l := &letters[i]
		if l.producer = l.Header.Get(subjects.HeaderProducer); l.producer != "" || l.Source != rollouts || l.Sequence == 0 {
			continue
		}
		bySeq[l.Sequence] = append(bySeq[l.Sequence], i)
		first, last = min(cmp.Or(first, l.Sequence), l.Sequence), max(last, l.Sequence)
	}
	state, err := bus.StreamState(ctx, c, run, subjects.Rollouts)
	if err != nil || state.Msgs == 0 || last < state.FirstSeq || first > state.LastSeq {
		return err
	}
	last = min(last, state.LastSeq) // it is there: ROLLOUTS is only purged from the front
	err = bus.FollowHeaders(ctx, c, run, max(first, state.FirstSeq), func(msgs []bus.HeaderMsg) error {
		for i := range msgs {
			for _, k := range bySeq[msgs[i].Seq] {
				letters[k].producer = strings.TrimPrefix(msgs[i].Subject, run.RolloutSubject(""))
			}
			if msgs[i].Seq >= last {
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

// ShowLetter reads a dead letter.
func ShowLetter(ctx context.Context, s Source, run subjects.Run, number uint64) (*LetterDetail, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := findLetters(ctx, conn, run, LetterFilter{Numbers: []uint64{number}})
	if err != nil {
		return nil, err
	}
	requeued, err := bus.Requeued(ctx, conn, run)
	if err != nil {
		return nil, err
	}
	l := &found[0]
	d := &LetterDetail{Letter: describe(l, requeued), Headers: l.Header, FaultAt: -1}
	if err := d.read(ctx, conn, run, l); err != nil {
		return nil, err
	}
	m, err := join(ctx, conn, run, s.Log)
	if err != nil {
		return nil, err
	}
	cases, err := m.reopen(ctx, &l.Letter)
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		if c.fault != nil && d.Now == "" {
			d.Now = c.fault.Error()
		}
	}
	return d, nil
}

// read gets the letter's bytes and decodes them as far as they go.
func (d *LetterDetail) read(ctx context.Context, c *bus.Conn, run subjects.Run, l *located) error {
	if err := bus.ReadLetter(ctx, c, run, &l.Letter); err != nil {
		return err
	}
	if len(l.Data) > 0 {
		d.Raw, d.From = l.Data, "the letter"
	}
	if len(l.Data) == 0 || len(l.Data) < l.Bytes {
		m, err := source(ctx, c, run, &l.Letter)
		if err != nil && !errors.Is(err, bus.ErrNotFound) && !errors.Is(err, bus.ErrMalformed) {
			return err
		}
		if m != nil {
			d.Raw, d.From = m.cut(l.Item), fmt.Sprintf("message %d of %s: the letter has not all of them", l.Sequence, l.Source)
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
		d.Body, d.Decoded = ViewTrajectory(t), t
	}
	return nil
}

// original is a message of ROLLOUTS that a letter is about.
type original struct {
	seq  uint64
	hdr  nats.Header
	data []byte
}

// source reads that message; nil for a letter of another stream.
func source(ctx context.Context, c *bus.Conn, run subjects.Run, l *bus.Letter) (m *original, err error) {
	stream := run.StreamName(subjects.Rollouts)
	if l.Source != stream || l.Sequence == 0 {
		return nil, nil
	}
	err = bus.NewFetcher(c, stream, bus.FetchConfig{}).Fetch(ctx, []bus.SeqSize{{Seq: l.Sequence}}, func(seq uint64, hdr nats.Header, data []byte) error {
		m = &original{seq, hdr, data}
		return nil
	})
	return m, err
}

// DropLetters removes the bodies of dead letters, oldest first, and returns
// those that it dropped. What they rejected stays rejected.
func DropLetters(ctx context.Context, s Source, run subjects.Run, f LetterFilter) ([]Letter, error) {
	conn, done, err := s.open(ctx, run)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := findLetters(ctx, conn, run, f)
	if err != nil {
		return nil, err
	}
	low, err := lowWatermark(ctx, conn, run)
	if err != nil {
		return nil, err
	}
	var dropped []Letter
	for i := range found {
		l := &found[i]
		if !l.Dropped.IsZero() {
			continue
		}
		if l.producer != "" {
			l.Header[subjects.HeaderProducer] = []string{l.producer} // ROLLOUTS may forget it
		}
		now := time.Now()
		err := bus.DropLetter(ctx, conn, run, &l.Letter, low, now)
		if errors.Is(err, bus.ErrStreamFull) {
			err = fmt.Errorf("%w; a group that is open may need it (the ledger needs rollouts from %d on): drop an older one first, or raise the limit of %s", err, low, run.StreamName(subjects.DeadLetter))
		}
		if err != nil {
			return dropped, err
		}
		l.Dropped = now.UTC()
		dropped = append(dropped, describe(l, nil))
	}
	return dropped, nil
}

// lowWatermark is the first sequence of ROLLOUTS that the ledger still needs.
func lowWatermark(ctx context.Context, c *bus.Conn, run subjects.Run) (uint64, error) {
	head, err := bus.Last(ctx, c, run.StreamName(subjects.Ledger), run.LedgerSubject())
	if errors.Is(err, bus.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var e subjects.Entry
	if err := subjects.DecodeMessage(head.Data, &e); err != nil {
		return 0, fmt.Errorf("read ledger entry %d: %w", head.Seq, err)
	}
	return e.Low, nil
}

// cut is the body of one trajectory, or all where that cannot be told apart.
func (m *original) cut(item int) []byte {
	if b, err := bus.OpenBundle(m.seq, m.hdr, m.data); err == nil && item >= 0 && item < len(b.Items) {
		if raw := b.Raw(item); raw != nil {
			return raw
		}
	}
	return m.data
}

// IsPermission reports whether a bus refused something to these credentials.
func IsPermission(err error) bool { return errors.Is(err, bus.ErrPermission) }
