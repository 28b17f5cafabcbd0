package trainerbridge

import (
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// stub is a bundle of n trajectories and size bytes with nothing in them.
func stub(seq uint64, n, size int) *bundle {
	b := &bus.Bundle{Seq: seq, Data: make([]byte, size), Items: make([]bus.Item, n)}
	for i := range b.Items {
		b.Items[i].Entry = subjects.IndexEntry{Kind: subjects.Train, Status: subjects.Succeeded}
	}
	return newBundle(b)
}

func TestBodies_EvictPlacedBundlesFirstThenTheOldest(t *testing.T) {
	const size = 10 << 10
	c := newBodies(3*size + 3*2*viewBytes)
	for seq := uint64(1); seq <= 3; seq++ {
		c.put(stub(seq, 2, size))
	}
	c.settle(2)
	c.settle(2)
	c.put(stub(4, 2, size))
	if c.get(2) != nil || c.get(1) == nil {
		t.Fatal("the bundle whose rows are placed should go first")
	}
	c.settle(3)
	c.put(stub(5, 2, size))
	if c.get(1) != nil || c.get(3) == nil || c.get(5) == nil {
		t.Fatal("then the oldest should go")
	}
	if used, n := c.size(); n != 3 || used > 3*(size+2*viewBytes) {
		t.Fatalf("%d bundles of %d bytes", n, used)
	}
}

func TestBodies_KeepNothingLargerThanTheBound(t *testing.T) {
	c := newBodies(1 << 10)
	c.put(stub(1, 1, 1<<20))
	if used, n := c.size(); used != 0 || n != 0 {
		t.Fatalf("%d bytes in %d bundles", used, n)
	}
	c.settle(1)
}
