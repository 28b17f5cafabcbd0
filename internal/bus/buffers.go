package bus

import (
	"bytes"
	"sync"

	"github.com/headrace/headrace/subjects"
)

// Memory of the publish path is reused, in three sizes: a body as it is encoded,
// the bodies of a bundle, the entries of a bundle.
var (
	bodies  = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	bundles = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	indexes = sync.Pool{New: func() any { return new([]subjects.IndexEntry) }}
)

// newBuffer is for one body.
func newBuffer() *bytes.Buffer {
	b := bodies.Get().(*bytes.Buffer)
	b.Reset()
	return b
}

// newBundleBuffer has room for the bodies of a bundle.
func newBundleBuffer(size int) *bytes.Buffer {
	b := bundles.Get().(*bytes.Buffer)
	b.Reset()
	b.Grow(size)
	return b
}

// freeBuffer takes back either kind; very large ones are left to the collector.
func freeBuffer(b *bytes.Buffer) {
	switch n := b.Cap(); {
	case n < defaultBundleBytes/2:
		bodies.Put(b)
	case n <= 4*defaultBundleBytes:
		bundles.Put(b)
	}
}

func newEntries(n int) []subjects.IndexEntry {
	e := *indexes.Get().(*[]subjects.IndexEntry)
	if cap(e) < n {
		e = make([]subjects.IndexEntry, 0, n)
	}
	return e[:0]
}

func freeEntries(e []subjects.IndexEntry) {
	clear(e)
	e = e[:0]
	indexes.Put(&e)
}
