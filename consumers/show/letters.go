package show

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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

// Filed is a letter and who published what it is about; empty: nobody knows.
type Filed struct {
	bus.Letter
	Producer string
}

// Describe is the line of a letter; requeued is what [bus.Requeued] says.
func Describe(l *Filed, requeued map[string]uint64) Letter {
	d := Letter{Number: l.Number, At: l.Time.UTC(), Stage: l.Stage, Producer: l.Producer, Trajectory: l.ID, Reason: l.Reason,
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

// FindLetters finds what a filter chooses.
func FindLetters(ctx context.Context, c *bus.Conn, run subjects.Run, f LetterFilter) ([]Filed, error) {
	var found []Filed
	err := bus.Letters(ctx, c, run, func(l *bus.Letter) error {
		if f.takes(l) {
			found = append(found, Filed{Letter: *l})
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
		found = slices.DeleteFunc(found, func(l Filed) bool { return l.Producer != f.Producer })
	}
	for _, n := range f.Numbers {
		if !slices.ContainsFunc(found, func(l Filed) bool { return l.Number == n }) {
			return nil, fmt.Errorf("run %s has no dead letter %d: `headrace deadletter ls %s` lists them", run, n, run)
		}
	}
	return found, nil
}

// nameProducers reads who published the messages that letters are about: from
// the letter, or from ROLLOUTS as far as it goes back.
func nameProducers(ctx context.Context, c *bus.Conn, run subjects.Run, letters []Filed) error {
	rollouts := run.StreamName(subjects.Rollouts)
	bySeq, first, last := map[uint64][]int{}, uint64(0), uint64(0)
	for i := range letters {
		l := &letters[i]
		if l.Producer = l.Header.Get(subjects.HeaderProducer); l.Producer != "" || l.Source != rollouts || l.Sequence == 0 {
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
				letters[k].Producer = strings.TrimPrefix(msgs[i].Subject, run.RolloutSubject(""))
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
