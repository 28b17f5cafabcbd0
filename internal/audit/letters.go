package audit

import (
	"cmp"
	"context"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/headrace/headrace/grouper"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// letters are what the inspector rejected, in the order in which it did.
type letters struct {
	list []rejection
	at   map[subjects.Address]bool
	gone uint64 // letters that are missing without a stub, all of them up to goneTo

	goneTo uint64
}

type rejection struct {
	seq uint64 // of the letter, or of the one that its stub stands for
	subjects.Address
	id string
}

// readLetters reads DEADLETTER, which is small.
func readLetters(ctx context.Context, c *bus.Conn, run subjects.Run, state jetstream.StreamState) (*letters, error) {
	l := &letters{at: map[subjects.Address]bool{}}
	replaced := uint64(0)
	err := bus.Letters(ctx, c, run, func(m *bus.Letter) error {
		replaced += uint64(m.Replaced)
		if m.Stage != subjects.InspectStage || m.Source != run.StreamName(subjects.Rollouts) {
			return nil
		}
		r := rejection{seq: m.Number, Address: subjects.Address{Seq: m.Sequence, Index: grouper.Whole}, id: m.ID}
		if m.Item != bus.WholeMessage {
			r.Index = m.Item
		}
		l.list = append(l.list, r)
		l.at[r.Address] = true
		return nil
	})
	slices.SortStableFunc(l.list, func(a, b rejection) int { return cmp.Compare(a.seq, b.seq) })
	if missing := state.LastSeq - state.Msgs; missing > replaced {
		l.gone, l.goneTo = missing-replaced, state.LastSeq
		if l.gone == state.FirstSeq-1 { // the oldest, to make room
			l.goneTo = l.gone
		}
	}
	return l, err
}

// rejected reports whether a trajectory was dead-lettered.
func (l *letters) rejected(seq uint64, index int) bool {
	return l.at[subjects.Address{Seq: seq, Index: index}] || l.at[subjects.Address{Seq: seq, Index: grouper.Whole}]
}
