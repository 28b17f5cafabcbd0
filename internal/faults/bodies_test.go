package faults

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/bus"
	"github.com/headrace/headrace/subjects"
)

// letters waits for dead letters and returns them.
func (p *pipeline) letters(n int) (out []bus.Msg) {
	p.Helper()
	done := errors.New("done")
	err := bus.Follow(p.ctx(), p.conn, run.StreamName(subjects.DeadLetter), "", 1, func(m *bus.Msg) error {
		if out = append(out, *m); len(out) == n {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		p.Fatalf("%d dead letters of %d: %v", len(out), n, err)
	}
	return out
}

// A reward that is no number, sent by a client that looks and by one that lies:
// it costs its own trajectory, and no batch.
func TestFault_F7_ANaNRewardCostsItsTrajectoryAlone(t *testing.T) {
	p := live(t, external())
	nan := rollout("a", 0)
	nan.Reward = math.NaN()
	pub := p.publisher("p1")
	if _, err := pub.Publish(t.Context(), nan); !errors.Is(err, bus.ErrMalformed) {
		t.Errorf("published, %v", err)
	}
	honest := rollout("a", 0)
	p.raw("liar", 1, honest.Index(), p.body(nan))
	p.publish(pub, "a", 1, 2, 3)
	p.publish(pub, "b", 0, 1, 2, 3)
	c := p.whole()
	if m := p.letters(1)[0]; !strings.Contains(m.Header.Get(subjects.HeaderReason), "reward") || m.Header.Get(subjects.HeaderID) != "a/0/0" {
		t.Errorf("dead letter %v", m.Header)
	}
	retry := rollout("a", 0)
	retry.Attempt = 1
	if _, err := pub.Publish(t.Context(), retry); err != nil {
		t.Fatal(err)
	}
	if b, groups := p.train(c); len(groups) != 2 || b.Rows != 8 || math.IsNaN(b.RewardMean) {
		t.Errorf("trained %v, mean reward %v", groups, b.RewardMean)
	}
}

// What a payload can make run is nothing: it is data to both decoders, and
// buried with its bytes when it is not msgpack of the schema.
func TestFault_F15_APayloadRunsNothing(t *testing.T) {
	p := live(t, external())
	mark := filepath.Join(t.TempDir(), "mark")
	honest := rollout("a", 0)
	payloads := [][]byte{
		[]byte("cposix\nsystem\n(S'touch " + mark + "'\ntR."), // what one language's object format would run
		[]byte("!!python/object/apply:os.system [\"touch " + mark + "\"]"),
		{0xc7, 3, 1, 'a', 'b', 'c'},                 // an extension type of msgpack
		append([]byte{0x81, 0xa1, 'v'}, 0xd4, 5, 0), // one as a field
	}
	for n, body := range payloads {
		p.raw("hostile", n+1, honest.Index(), body)
	}
	pub := p.publisher("p1")
	p.publish(pub, "b", 0, 1, 2, 3)
	p.publish(pub, "c", 0, 1, 2, 3)
	c := p.whole()
	p.train(c)
	for n, m := range p.letters(len(payloads)) {
		if !bytes.Equal(m.Data, payloads[n]) {
			t.Errorf("payload %d is buried as %q", n, m.Data)
		}
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Error("a payload was run")
	}
}

// Python objects cannot be made of bytes where nothing that makes them is imported.
func TestFault_F15_ThePythonSideHasNoDecoderThatRunsCode(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../../trainer-bridge/python/headrace", func(path string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".py" {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for _, word := range []string{"pickle", "marshal.", "shelve", "dill", "joblib", "yaml.load", "allow_pickle=True", " eval(", " exec(", "torch.load"} {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s names %q", path, word)
			}
		}
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("read %d files: %v", files, err)
	}
}

// Who looks at a run takes nothing from it: everything is read, twice, before
// the trainer asks.
func TestFault_F10_AViewerConsumesNothing(t *testing.T) {
	p := live(t, external())
	pub := p.publisher("p1")
	for n := range 4 {
		p.publish(pub, subjects.TrainGroup(uint64(n)), 0, 1, 2, 3)
	}
	c := p.whole()
	p.await("batch 2", func(e *subjects.Entry) bool { return len(e.Batches) > 0 && e.Batches[len(e.Batches)-1].Step == 2 })
	view := func() (seen int) {
		for _, s := range []subjects.Stream{subjects.Rollouts, subjects.Ledger, subjects.Weights} {
			state, err := bus.StreamState(t.Context(), p.conn, run, s)
			p.must(err)
			done := errors.New("done")
			err = bus.Follow(p.ctx(), p.conn, run.StreamName(s), "", 1, func(m *bus.Msg) error {
				if seen++; m.Seq >= state.LastSeq {
					return done
				}
				return nil
			})
			if !errors.Is(err, done) {
				t.Fatal(err)
			}
		}
		return seen
	}
	if one, two := view(), view(); one < 16 || two < one {
		t.Errorf("a viewer saw %d, the next one %d", one, two)
	}
	for step := range subjects.Step(2) {
		if b, _ := p.train(c); b.Step != step+1 || b.Rows != 8 {
			t.Errorf("step %d has %d rows", b.Step, b.Rows)
		}
	}
}
