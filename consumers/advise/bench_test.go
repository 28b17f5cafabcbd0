package advise

import (
	"testing"

	"github.com/headrace/headrace/consumers/advise/simtest"
)

// BenchmarkState_WithAdvice is what a view costs each time that it is drawn.
func BenchmarkState_WithAdvice(b *testing.B) {
	r := simtest.Base()
	r.Seconds = 2400
	board, now := simtest.Play(r, Rules)
	for b.Loop() {
		if s := board.State(now); len(s.Advice) == 0 {
			b.Fatal("no advice")
		}
	}
}
