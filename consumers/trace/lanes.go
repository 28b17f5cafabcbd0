package trace

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/headrace/headrace/consumers/perfetto"
	"github.com/headrace/headrace/subjects"
)

// block is something that lasted: a slice and what is inside of it.
type block struct {
	start, end     int64
	name, category string
	flows, ends    []uint64
	args           []perfetto.Arg
	inside         []block
	detail         func(*block)  // fills in args and inside when it is written
	mark           bool          // an instant
	lane           int32         // from 1: where it was recorded with others that it may lie in
	step           subjects.Step // of the trainer's, 0: none
}

// nest puts blocks that may lie in each other into each other. One that lasts
// longer than what it began in is cut off there: the viewer knows no other way.
func nest(flat []block) []block {
	slices.SortStableFunc(flat, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	out, _ := within(flat, 1<<63-1)
	return out
}

// within nests the leading blocks that begin before end and returns the rest.
func within(flat []block, end int64) (out, rest []block) {
	for len(flat) > 0 && flat[0].start < end {
		b := flat[0]
		b.end = min(max(b.end, b.start), end)
		b.inside, flat = within(flat[1:], b.end)
		out = append(out, b)
	}
	return out, flat
}

// spread puts blocks that overlap into as few lanes as it takes, each into the
// lowest that is free.
func spread(blocks []block) [][]block {
	// Bodies come in no certain order; a window gives the same file every time.
	slices.SortStableFunc(blocks, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), slices.Compare(a.flows, b.flows))
	})
	var lanes [][]block
	var busy laneEnds
	var free laneNumbers
	for _, b := range blocks {
		for len(busy) > 0 && busy[0].end <= b.start {
			heap.Push(&free, heap.Pop(&busy).(laneEnd).lane)
		}
		if len(free) == 0 {
			lanes = append(lanes, nil)
			heap.Push(&free, len(lanes)-1)
		}
		n := heap.Pop(&free).(int)
		lanes[n] = append(lanes[n], b)
		heap.Push(&busy, laneEnd{b.end, n})
	}
	return lanes
}

type laneEnd struct {
	end  int64
	lane int
}

// laneEnds is a heap of the lanes in use, the one that is free first on top.
type laneEnds []laneEnd

func (h laneEnds) Len() int           { return len(h) }
func (h laneEnds) Less(i, j int) bool { return h[i].end < h[j].end }
func (h laneEnds) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *laneEnds) Push(x any)        { *h = append(*h, x.(laneEnd)) }
func (h *laneEnds) Pop() any          { return pop(h) }

// laneNumbers is a heap of free lanes, the lowest on top.
type laneNumbers []int

func (h laneNumbers) Len() int           { return len(h) }
func (h laneNumbers) Less(i, j int) bool { return h[i] < h[j] }
func (h laneNumbers) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *laneNumbers) Push(x any)        { *h = append(*h, x.(int)) }
func (h *laneNumbers) Pop() any          { return pop(h) }

func pop[S ~[]T, T any](h *S) T {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
