package subjects

import (
	"reflect"
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
