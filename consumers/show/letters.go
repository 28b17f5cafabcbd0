package show

import (
	"context"
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
	found, err := ListLetters(ctx, c, run, f)
	if err == nil {
		err = NameProducers(ctx, c, run, found)
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

// ListLetters finds what a filter chooses, whoever published it: of most letters
// only [NameProducers] knows that.
func ListLetters(ctx context.Context, c *bus.Conn, run subjects.Run, f LetterFilter) (found []Filed, err error) {
	err = bus.Letters(ctx, c, run, func(l *bus.Letter) error {
		if f.takes(l) {
			found = append(found, Filed{Letter: *l, Producer: l.Header.Get(subjects.HeaderProducer)})
		}
		return nil
	})
	return found, err
}
