package bus

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/subjects"
)

// Bundle is one ROLLOUTS message, whole: its body is in one piece even when it
// travelled in parts.
type Bundle struct {
	Seq      uint64
	Time     time.Time // the server's, when it was stored; zero when fetched without
	Producer string
	Counter  uint64
	Items    []Item
	Header   nats.Header
	Data     []byte
}

// Item is one trajectory of a bundle.
type Item struct {
	Entry subjects.IndexEntry
	Err   error // why it cannot be read; then Entry may be zero
}

// OpenBundle reads the headers of a ROLLOUTS message. An error (ErrMalformed)
// means that nothing of it can be told apart; a fault of one trajectory
// (entry, place, checksum) is that item's Err alone.
func OpenBundle(seq uint64, hdr nats.Header, data []byte) (*Bundle, error) {
	return nil, errors.ErrUnsupported
}

// Body is the body of the i-th trajectory, aliasing the bundle; nil when its Err is set.
func (b *Bundle) Body(i int) []byte { return nil }

// IsPart reports whether a message is an early part of a larger one. It has
// no index; its bytes come with the last part.
func IsPart(hdr nats.Header) bool { return len(hdr[subjects.HeaderPart]) > 0 }
