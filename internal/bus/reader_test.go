package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/headrace/headrace/subjects"
)

// logOf is a stream in memory that refuses what max_payload would.
type logOf struct {
	limit  int
	msgs   map[uint64]*nats.Msg
	ids    map[string]uint64
	broken func(n int) bool // lose the answer of the n-th publish
	n      int
}

var errLost = errors.New("answer lost")

func (l *logOf) publish(_ context.Context, hdr nats.Header, data []byte) (uint64, error) {
	size := len(data)
	for k, vs := range hdr {
		for _, v := range vs {
			size += len(k) + len(v) + 4
		}
	}
	if size+12 > l.limit {
		return 0, fmt.Errorf("%d bytes over the limit of %d", size, l.limit)
	}
	l.n++
	id := hdr[jetstream.MsgIDHeader][0]
	seq, known := l.ids[id]
	if !known {
		seq = uint64(len(l.msgs) + 1)
		l.ids[id] = seq
		l.msgs[seq] = &nats.Msg{Header: maps.Clone(hdr), Data: bytes.Clone(data)}
	}
	if l.broken != nil && l.broken(l.n) {
		return 0, errLost
	}
	return seq, nil
}

func (l *logOf) read(_ context.Context, seq uint64) (nats.Header, []byte, error) {
	m, ok := l.msgs[seq]
	if !ok {
		return nil, nil, ErrNotFound
	}
	return m.Header, m.Data, nil
}

// Any body comes back as it was through any limit, also when it is published
// again after failures in between, and is then stored once.
func TestParts_RoundTripThroughAnyLimitAndAnyFailure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(8192, 40000).Draw(t, "limit")
		n := rapid.IntRange(limit, 20*limit).Draw(t, "bytes")
		body := make([]byte, n)
		for i := range body {
			body[i] = byte(i * 31 >> 3)
		}
		lost := rapid.SliceOfN(rapid.IntRange(1, 60), 0, 5).Draw(t, "lost answers")
		l := &logOf{limit: limit, msgs: map[uint64]*nats.Msg{}, ids: map[string]uint64{}}
		l.broken = func(n int) bool {
			for _, x := range lost {
				if x == n {
					return true
				}
			}
			return false
		}
		whole := nats.Header{jetstream.MsgIDHeader: {"whole"}, "X": {"y"}}
		seq, err := uint64(0), errLost
		for errors.Is(err, errLost) {
			seq, err = publishParts(context.Background(), whole, body, int64(limit), l.publish)
		}
		if err != nil {
			t.Fatal(err)
		}
		if int(seq) != len(l.msgs) {
			t.Fatalf("stored %d messages, the last is %d", len(l.msgs), seq)
		}
		last := l.msgs[seq]
		got, err := joinParts(context.Background(), seq, last.Header, last.Data, n, l.read)
		if err != nil || !bytes.Equal(got, body) || last.Header.Get("X") != "y" {
			t.Fatalf("%d of %d bytes came back, %v", len(got), n, err)
		}
		if _, err := joinParts(context.Background(), seq, last.Header, last.Data, n-1, l.read); !errors.Is(err, ErrMalformed) {
			t.Fatalf("over the limit: %v", err)
		}
	})
}

// Any set of bodies put into a bundle comes out, and a flipped bit is found in
// exactly the item it hits.
func TestBundle_RoundTripAndAFlippedBitHitsOneItem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 50), 1, 20).Draw(t, "bodies")
		var data []byte
		var entries []subjects.IndexEntry
		for i, b := range bodies {
			entries = append(entries, subjects.IndexEntry{Kind: subjects.Train, Group: "g", Slot: subjects.Slot(i), Status: subjects.Succeeded, Segments: 1,
				Environment: "e", Offset: len(data), Length: len(b), Checksum: subjects.Checksum(b), MinVersion: -1, MaxVersion: -1})
			data = append(data, b...)
		}
		p := &Publisher{cfg: PublisherConfig{Producer: "p"}}
		hdr := p.header(entries, 7)
		b, err := OpenBundle(3, hdr, data)
		if err != nil || b.Producer != "p" || b.Counter != 7 || len(b.Items) != len(bodies) {
			t.Fatalf("%+v, %v", b, err)
		}
		for i := range bodies {
			if !bytes.Equal(b.Body(i), bodies[i]) {
				t.Fatalf("body %d differs: %v", i, b.Items[i].Err)
			}
		}
		at := rapid.IntRange(0, len(data)-1).Draw(t, "flip")
		data[at] ^= 1
		b, err = OpenBundle(3, hdr, data)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range entries {
			hit := at >= e.Offset && at < e.Offset+e.Length
			if (b.Items[i].Err != nil) != hit || hit && !bytes.Equal(b.Raw(i), data[e.Offset:e.Offset+e.Length]) {
				t.Fatalf("item %d, hit %v: %v", i, hit, b.Items[i].Err)
			}
		}
	})
}

func TestMessageID_FollowsFromTheTrajectoriesAlone(t *testing.T) {
	entries := func(slots ...int) (out []subjects.IndexEntry) {
		for _, s := range slots {
			out = append(out, subjects.IndexEntry{Kind: subjects.Train, Group: "g", Slot: subjects.Slot(s), Reward: float64(len(slots))})
		}
		return out
	}
	if a, b := messageID(entries(1, 2)), messageID(entries(1, 2)); a != b {
		t.Errorf("%s and %s", a, b)
	}
	seen := map[string]bool{}
	for _, e := range [][]subjects.IndexEntry{entries(1), entries(2), entries(1, 2), entries(2, 1), entries(1, 2, 3)} {
		seen[messageID(e)] = true
	}
	if len(seen) != 5 {
		t.Errorf("%d different ids of 5", len(seen))
	}
	if id := messageID(entries(1)); id != "train/g/1/0" {
		t.Errorf("id %s", id)
	}
}

func FuzzOpenBundle(f *testing.F) {
	e := subjects.IndexEntry{Kind: subjects.Train, Group: "g", Status: subjects.Failed, Environment: "e", Length: 3, Checksum: subjects.Checksum([]byte("abc"))}
	f.Add(e.String(), e.String(), "p", "1", "1,2", []byte("abc"))
	f.Add("", "", "", "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, a, b, producer, counter, parts string, data []byte) {
		hdr := nats.Header{subjects.HeaderIndex: {a, b}, subjects.HeaderProducer: {producer}, subjects.HeaderCounter: {counter}, subjects.HeaderParts: {parts}}
		if bundle, err := OpenBundle(9, hdr, data); err == nil {
			for i := range bundle.Items {
				if body := bundle.Body(i); body != nil && subjects.Checksum(body) != bundle.Items[i].Entry.Checksum {
					t.Errorf("item %d passed with a wrong checksum", i)
				}
				bundle.Raw(i)
			}
		}
		read := func(_ context.Context, seq uint64) (nats.Header, []byte, error) {
			return nats.Header{subjects.HeaderPart: {a}}, data, nil
		}
		if body, err := joinParts(context.Background(), 9, hdr, data, 1000, read); err == nil && len(body) > max(1000, len(data)) {
			t.Errorf("%d bytes, the limit is 1000", len(body))
		}
	})
}
