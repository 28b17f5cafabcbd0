package grouper

import (
	"errors"
	"testing"
	"time"

	"github.com/headrace/headrace/subjects"
)

// fuzzed is the configuration whose log is damaged.
func fuzzed() (Config, Supply) {
	return Config{GroupSize: 2, GroupsPerBatch: 2, Steps: 9, MaxStaleness: new(2), Evaluation: Evaluation{Every: 3, Tasks: 2}}, Supply{Train: []uint64{40}}
}

// lived is a world with a past.
func lived(f *testing.F, seed string) *world {
	cfg, supply := fuzzed()
	w := newWorld(f, cfg, supply)
	w.decide()
	for i := range 60 {
		w.step(func(n int) int { return int(seed[i%len(seed)]+byte(i)) % n })
		w.decide()
	}
	return w
}

// FuzzRestore starts a core from the state in a ledger entry, damaged: it is
// refused, or gives a core whose own state is not.
func FuzzRestore(f *testing.F) {
	for _, seed := range []string{"a log", "another", "zz"} {
		f.Add(lived(f, seed).core.Snapshot())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		cfg, supply := fuzzed()
		c, err := Restore(cfg, supply, b, 1)
		if err != nil {
			return
		}
		if _, err := Restore(cfg, supply, c.Snapshot(), 1); err != nil {
			t.Fatalf("its own state is refused: %v", err)
		}
		c.View(int64(time.Hour))
		c.Outstanding()
	})
}

// FuzzApply replays an entry of a damaged ledger: an error, never a crash.
func FuzzApply(f *testing.F) {
	for _, seed := range []string{"a log", "another", "zz"} {
		for _, b := range lived(f, seed).ledger {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e := &subjects.Entry{}
		if err := subjects.DecodeMessage(b, e); err != nil {
			if !errors.Is(err, subjects.ErrMalformed) {
				t.Fatalf("error %v is not ErrMalformed", err)
			}
			return
		}
		total := 0
		for _, i := range e.Issued {
			total += max(i.Count, 0)
		}
		if total > 1000 {
			return // an honest entry's; memory follows from the count
		}
		cfg, supply := fuzzed()
		c, err := New(cfg, supply)
		if err != nil {
			t.Fatal(err)
		}
		if c.Apply(e, 1) == nil {
			c.Decide(int64(time.Hour))
			c.Outstanding()
		}
	})
}
