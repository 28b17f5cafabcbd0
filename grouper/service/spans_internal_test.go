package service

import (
	"testing"

	"github.com/headrace/headrace/subjects"
)

// BenchmarkWork is what a slice of headers costs, however many are in it.
func BenchmarkWork(b *testing.B) {
	w := newWork("a")
	b.ReportAllocs()
	for range b.N {
		w.folded(w.Now(), 1)
	}
}

func TestWork_FoldsOfATimeAreOneSpan(t *testing.T) {
	w := newWork("a")
	for range 1000 {
		w.folded(w.Now(), 2)
	}
	if w.folding.messages == 0 || w.folding.messages > 2000 {
		t.Fatalf("%+v", w.folding)
	}
	w.decided(w.Now(), &subjects.Entry{Batches: []subjects.Batch{{Step: 3}}})
	if w.folding.messages != 0 {
		t.Errorf("a decision before the fold it rests on: %+v", w.folding)
	}
}
