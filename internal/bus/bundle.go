package bus

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/headrace/headrace/subjects"
)

// Bundle is one ROLLOUTS message, whole: its body is in one piece even when it
// travelled in parts.
type Bundle struct {
	Seq      uint64
	Time     time.Time // the server's, when it was stored; zero when not known
	Producer string
	Counter  uint64 // the producer's messages up to this one
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
// (entry, place, checksum) is that item's Err alone. Items are valid when they
// lie within the body, one behind the other, without overlap or gap before them.
func OpenBundle(seq uint64, hdr nats.Header, data []byte) (*Bundle, error) {
	items := make([]Item, len(hdr[subjects.HeaderIndex]))
	for i, text := range hdr[subjects.HeaderIndex] {
		items[i].Entry, items[i].Err = subjects.ParseIndex(text)
	}
	return OpenItems(seq, hdr, data, items)
}

// OpenItems is OpenBundle for a message whose index is read already. An item
// that comes with an Err is passed over: its bytes are not looked at, and nothing
// is said of where its neighbours must lie.
func OpenItems(seq uint64, hdr nats.Header, data []byte, items []Item) (*Bundle, error) {
	if len(items) == 0 {
		return nil, fmt.Errorf("%w: message %d has no index", ErrMalformed, seq)
	}
	b := &Bundle{Seq: seq, Header: hdr, Data: data, Items: items}
	if v := hdr[subjects.HeaderProducer]; len(v) == 1 && subjects.ValidToken(v[0]) {
		b.Producer = v[0]
	} else {
		return nil, fmt.Errorf("%w: message %d names no producer", ErrMalformed, seq)
	}
	if v := hdr[subjects.HeaderCounter]; len(v) == 1 {
		b.Counter, _ = strconv.ParseUint(v[0], 10, 64)
	}
	if b.Counter == 0 {
		return nil, fmt.Errorf("%w: message %d has no counter", ErrMalformed, seq)
	}
	b.place()
	return b, nil
}

// place checks that the items tile the body.
func (b *Bundle) place() {
	end, known := 0, true // where the previous item ends, if that can be told
	for i := range b.Items {
		it := &b.Items[i]
		if it.Err != nil {
			known = false
			continue
		}
		e := &it.Entry
		switch {
		case e.Offset > len(b.Data) || e.Length > len(b.Data)-e.Offset:
			it.Err = fmt.Errorf("%w: body [%d, +%d) of %d bytes", ErrMalformed, e.Offset, e.Length, len(b.Data))
			known = false
			continue
		case e.Offset < end || known && e.Offset != end:
			it.Err = fmt.Errorf("%w: body at %d, the one before ends at %d", ErrMalformed, e.Offset, end)
		case subjects.Checksum(b.Data[e.Offset:e.Offset+e.Length]) != e.Checksum:
			it.Err = fmt.Errorf("%w: checksum of the body differs", ErrMalformed)
		}
		end, known = max(end, e.Offset+e.Length), true
	}
	if n := len(b.Items); known && end != len(b.Data) && b.Items[n-1].Err == nil {
		b.Items[n-1].Err = fmt.Errorf("%w: %d bytes after the last body", ErrMalformed, len(b.Data)-end)
	}
}

// Body is the body of the i-th trajectory, aliasing the bundle; nil when its Err is set.
func (b *Bundle) Body(i int) []byte {
	if b.Items[i].Err != nil {
		return nil
	}
	return b.Raw(i)
}

// Raw is what can be cut out for the i-th trajectory, be it valid or not; nil
// when its place is not known.
func (b *Bundle) Raw(i int) []byte {
	e := &b.Items[i].Entry
	if e.Length == 0 || e.Offset > len(b.Data) || e.Length > len(b.Data)-e.Offset {
		return nil
	}
	return b.Data[e.Offset : e.Offset+e.Length : e.Offset+e.Length]
}
