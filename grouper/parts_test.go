package grouper

import (
	"testing"
	"time"

	"github.com/headrace/headrace/subjects"
)

func early1(producer string) *subjects.Admission {
	return &subjects.Admission{Producer: producer, Early: true}
}

// whole is the last of several parts, of an open group.
func whole(producer string, slot int, parts ...uint64) *subjects.Admission {
	e := subjects.IndexEntry{Kind: subjects.Train, Group: "t0", Slot: subjects.Slot(slot), Status: subjects.Succeeded, Environment: "lake", Segments: 1}
	return &subjects.Admission{Producer: producer, Parts: parts, Arrivals: []subjects.Arrival{{Entry: e}}}
}

func TestCore_WatermarkStaysBelowTheEarlyPartsOfABody(t *testing.T) {
	c, err := New(Config{Steps: 1, GroupSize: 2, GroupsPerBatch: 1, GroupDeadline: time.Minute, ZeroVariance: PolicyKeep, Inspect: new(false)}, Supply{Train: []uint64{0}})
	if err != nil {
		t.Fatal(err)
	}
	c.Decide(1)
	low := func(want uint64) {
		t.Helper()
		if got := c.low(); got != want {
			t.Errorf("watermark %d, want %d", got, want)
		}
		again, err := Restore(c.cfg, Supply{Train: []uint64{0}}, c.Snapshot(), 1)
		if err != nil || again.low() != c.low() {
			t.Errorf("restored: watermark %d, want %d: %v", again.low(), c.low(), err)
		}
	}
	at := int64(time.Second)
	c.Arrive(10, at, early1("p"))
	c.Arrive(11, at, early1("q"))
	low(10)
	c.Arrive(12, at, whole("p", 0, 10)) // another group's bundles may lie between
	low(10)
	c.Arrive(13, at, whole("q", 1, 4, 11)) // 4 is not its own, nor a part
	low(10)
	c.Decide(at + 1)
	if c.lastStep != 1 || len(c.kept)+len(c.open) > 0 {
		t.Fatal("the batch is not cut")
	}
	low(14)
	c.Arrive(14, at, early1("p"))
	c.Arrive(15, at+int64(59*time.Second), early1("p"))
	low(14)
	c.Arrive(16, at+int64(61*time.Second), early1("p")) // the first is given up
	low(15)
}
