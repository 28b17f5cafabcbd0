package audit_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/audit"
	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/internal/natstest"
	"github.com/headrace/headrace/subjects"
)

// TestRun_FlippedBitsOfTheStoreAreReported flips a bit of a store block while the
// server is down, in the body of a message, in a record's header, and in the last
// message, which is the hardest to miss by.
func TestRun_FlippedBitsOfTheStoreAreReported(t *testing.T) {
	for _, c := range []struct {
		name   string
		stream subjects.Stream
		at     float64 // of the block
		index  bool    // the server's index of the block survives
	}{
		{"a body", subjects.Rollouts, .5, true},
		{"a body, the index lost", subjects.Rollouts, .5, false},
		{"the last body", subjects.Rollouts, .9999, true},
		{"the first record", subjects.Rollouts, .0001, false},
		{"a decision", subjects.Ledger, .6, true},
		{"an event of the trainer", subjects.Weights, .7, true},
		{"an event of the trainer, the index lost", subjects.Weights, .7, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			srv := natstest.Start(t, bus.ServerOptions{StoreDir: dir, Port: -1, Sync: "10m"})
			w := newWorld(t, srv, "flipped", policy(6)).play()
			srv.Shutdown()
			flip(t, dir, w.run.StreamName(c.stream), c.at, c.index)
			again := *w
			again.conn = natstest.Connect(t, natstest.Start(t, bus.ServerOptions{StoreDir: dir, Port: -1, Sync: "10m"}))
			r := again.audit()
			if r.OK || r.Lost == 0 {
				t.Fatalf("passed: %+v", r)
			}
			found := false
			for _, d := range r.Discrepancies {
				found = found || d.Check == audit.CheckStreams && strings.Contains(d.Stream, string(c.stream)) || d.Check == audit.CheckProducers || d.Check == audit.CheckTrainer
			}
			if !found {
				t.Errorf("not said where: %+v", r.Discrepancies)
			}
		})
	}
}

// place is the middle of the record that has the byte at: its headers or its
// data. With a bit of its sequence the server counts up to that when it starts,
// for minutes. A record begins with its length, of four bytes; the first one's
// length may be changed.
func place(b []byte, at int) int {
	if at < 4 {
		return at
	}
	for start := 0; ; {
		n := int(binary.LittleEndian.Uint32(b[start:]) &^ (1 << 31)) // without the mark of headers
		if at < start+n {
			return start + n/2
		}
		start += n
	}
}

// flip changes one bit of a stream's first block.
func flip(t *testing.T, dir, stream string, at float64, index bool) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", stream, "msgs", "1.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("blocks %v: %v", blocks, err)
	}
	b, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	b[place(b, int(at*float64(len(b)-1)))] ^= 16
	if err := os.WriteFile(blocks[0], b, 0o640); err != nil {
		t.Fatal(err)
	}
	if !index {
		if err := os.Remove(filepath.Join(filepath.Dir(blocks[0]), "index.db")); err != nil {
			t.Fatal(err)
		}
	}
}
