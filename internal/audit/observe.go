package audit

import (
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Observer sees the log as an audit folds it: what an entry of the ledger rests
// on comes before the entry. All calls come from one goroutine; nothing that is
// handed over may be changed, and of an Admission nothing may be kept.
type Observer interface {
	// Letter is a rejection by the inspector: dead letter seq. All come first.
	Letter(seq uint64, a subjects.Address)
	// Bundle is a message of ROLLOUTS, stored at a time in Unix nanoseconds.
	Bundle(seq uint64, at int64, a *subjects.Admission)
	// Event is a message of WEIGHTS.
	Event(m *bus.Msg)
	// Entry is an entry of the ledger, and its bytes.
	Entry(seq uint64, e *subjects.Entry, raw []byte)
}

// blind is the observer of an audit that has none.
type blind struct{}

func (blind) Letter(uint64, subjects.Address)           {}
func (blind) Bundle(uint64, int64, *subjects.Admission) {}
func (blind) Event(*bus.Msg)                            {}
func (blind) Entry(uint64, *subjects.Entry, []byte)     {}
