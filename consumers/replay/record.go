package replay

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// Record is one trajectory of the log.
type Record struct {
	subjects.Address
	// Time at which the server stored it.
	Time time.Time
	// Producer who published it.
	Producer string
	Entry    subjects.IndexEntry
	// Step that trained on it; 0 when none did, or when steps were not asked for.
	Step subjects.Step
	// Body is encoded as [subjects.DecodeTrajectory] reads it; nil from a tap,
	// and when Err says why it cannot be read.
	Body []byte
	Err  error
}

// stepOf says which step trained on what lies at an address.
type stepOf map[subjects.Address]subjects.Step

// recordsOf makes the records of a message from its headers, and calls fn with
// those that are chosen. Entries that cannot be read belong to no trajectory.
func recordsOf(f *Filter, steps stepOf, seq uint64, at time.Time, hdr nats.Header, fn func(*Record)) {
	producer := ""
	if v := hdr[subjects.HeaderProducer]; len(v) == 1 {
		producer = v[0]
	}
	for i, text := range hdr[subjects.HeaderIndex] {
		e, err := subjects.ParseIndex(text)
		if err != nil {
			continue
		}
		r := &Record{Address: subjects.Address{Seq: seq, Index: i}, Time: at, Producer: producer, Entry: e}
		r.Step = steps[r.Address]
		if f.Match(r) {
			fn(r)
		}
	}
}

// fill cuts a record's body out of its message.
func (r *Record) fill(b *bus.Bundle) {
	if r.Err = b.Items[r.Index].Err; r.Err == nil {
		r.Body = b.Body(r.Index)
	}
}
