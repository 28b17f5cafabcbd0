package subjects

import (
	"hash/fnv"
	"reflect"
	"strings"
	"testing"
)

func TestSpanBatch_RowsComeBackAsTheyWere(t *testing.T) {
	got, err := spanBatch().Spans()
	if err != nil {
		t.Fatal(err)
	}
	if want := timeSpans(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	var none SpanBatch
	none.SetSpans(nil)
	if got, err := none.Spans(); err != nil || len(got) != 0 {
		t.Errorf("an empty batch: %v, %v", got, err)
	}
}

func TestSpanBatch_ColumnsThatDoNotFitAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*SpanBatch){
		"a lane is missing":    func(b *SpanBatch) { b.Lane = b.Lane[1:] },
		"a flow is missing":    func(b *SpanBatch) { b.Flow = b.Flow[1:] },
		"no such name":         func(b *SpanBatch) { b.Name[0] = 99 },
		"negative name":        func(b *SpanBatch) { b.Name[0] = -1 },
		"negative lane":        func(b *SpanBatch) { b.Lane[0] = -1 },
		"negative duration":    func(b *SpanBatch) { b.Duration[0] = -1 },
		"before 1970":          func(b *SpanBatch) { b.Start[0] = -b.At - 1 },
		"longer than time":     func(b *SpanBatch) { b.Duration[0] = 1<<63 - 1 },
		"argument of no row":   func(b *SpanBatch) { b.Args[0].Row = 3 },
		"argument without key": func(b *SpanBatch) { b.Args[0].Key = 99 },
	} {
		b := spanBatch()
		spoil(b)
		if _, err := b.Spans(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestFlowID_IsFNV1aOfTheID(t *testing.T) {
	if got := FlowID("t17", 3, 1); got != 0x603e6ea14dd03abd {
		t.Errorf("got %#x", got)
	}
}

// TestFlowID_IsThatOfTheID: FNV-1a of the trajectory's id, with no memory taken.
func TestFlowID_IsThatOfTheID(t *testing.T) {
	for _, id := range []struct {
		g GroupID
		s Slot
		a Attempt
	}{{"t0", 0, 0}, {"e120-63", 1, 2}, {GroupID(strings.Repeat("x", 64)), 32767, 32767}} {
		h := fnv.New64a()
		_, _ = h.Write([]byte(TrajectoryID(id.g, id.s, id.a)))
		if got := FlowID(id.g, id.s, id.a); got != h.Sum64() {
			t.Errorf("%v: %x, want %x", id, got, h.Sum64())
		}
	}
	if n := testing.AllocsPerRun(100, func() { FlowID("t123456", 7, 1) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
