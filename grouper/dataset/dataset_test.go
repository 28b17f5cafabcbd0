package dataset

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPermutation_IsABijection(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.Uint64Range(1, 3000).Draw(r, "n")
		p := newPermutation(n, rapid.Uint64().Draw(r, "seed"), rapid.Uint64().Draw(r, "epoch"))
		seen := make([]bool, n)
		for i := range n {
			at := p.at(i)
			if at >= n || seen[at] {
				r.Fatalf("%d maps to %d, taken or not below %d", i, at, n)
			}
			seen[at] = true
		}
	})
}

func TestPermutation_DependsOnSeedAndEpoch(t *testing.T) {
	order := func(seed, epoch uint64) (s string) {
		p := newPermutation(26, seed, epoch)
		for i := range uint64(26) {
			s += string(rune('a' + p.at(i)))
		}
		return s
	}
	if a, b, c := order(1, 0), order(2, 0), order(1, 1); a == b || a == c || b == c {
		t.Errorf("orders %s %s %s", a, b, c)
	}
	if got := order(1, 0); got != order(1, 0) {
		t.Errorf("order changes: %s", got)
	}
}

func rows(t *testing.T, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDataset_EveryRowOnceAnEpoch(t *testing.T) {
	path := rows(t, "d.jsonl", `{"q": 1}`, ``, `{"q":2}`, `{"q":3}`, `{"q":4}`)
	d, err := Open(Config{Path: path, Epochs: 2, HeldOut: 1}, 1, 7)
	if err != nil {
		t.Fatal(err)
	}
	if d.Groups() != 6 || string(d.Eval(0).Data) != `{"q":4}` {
		t.Errorf("%d groups, held out %s", d.Groups(), d.Eval(0).Data)
	}
	seen := map[string]int{}
	for n := range d.Groups() {
		seen[string(d.Train(n).Data)]++
	}
	if len(seen) != 3 || seen[`{"q":1}`] != 2 || seen[`{"q":2}`] != 2 || seen[`{"q":3}`] != 2 {
		t.Errorf("two epochs gave %v", seen)
	}
}

func TestDataset_SeedsApartFromTheHeldOut(t *testing.T) {
	d, err := Open(Config{}, 256, 0)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(10000) {
		if s := d.Train(n).Seed; s < 1<<20 || s >= 1<<40 {
			t.Fatalf("training seed %d", s)
		}
	}
	if s := d.Eval(255).Seed; s != 255 {
		t.Errorf("held-out seed %d", s)
	}
}

func TestOpen_Refuses(t *testing.T) {
	good := rows(t, "good.jsonl", `{"q":1}`, `{"q":2}`)
	for name, c := range map[string]struct {
		cfg        Config
		field, msg string
	}{
		"overlapping seeds": {Config{Seeds: Range{0, 100}, EvalSeeds: Range{99, 10}}, "eval_seeds", "[99, 109) overlaps the training seeds [0, 100)"},
		"few held out":      {Config{EvalSeeds: Range{0, 1}}, "eval_seeds.count", "plays 2 tasks"},
		"seeds past 64 bit": {Config{Seeds: Range{1 << 62, 1<<63 - 1}}, "seeds.count", "within 64 bits"},
		"none held out":     {Config{Path: good}, "held_out", "want at least that many"},
		"all held out":      {Config{Path: good, HeldOut: 2}, "held_out", "leaves none to train on"},
		"trained held out":  {Config{Path: good, EvalPath: rows(t, "e.jsonl", `{"q": 3}`, `{"q": 2}`)}, "path", "held-out row 2 is also training row 2"},
		"no file":           {Config{Path: "absent.jsonl", HeldOut: 2}, "path", "no such file"},
		"no JSON":           {Config{Path: rows(t, "b.jsonl", `{"q":1}`, `{"q":`), HeldOut: 2}, "path", ":2: want one JSON object"},
		"no object":         {Config{Path: rows(t, "l.jsonl", `[1]`), HeldOut: 2}, "path", ":1: want one JSON object"},
		"eval alone":        {Config{EvalPath: good}, "path", "missing"},
		"both":              {Config{Path: good, EvalPath: good, HeldOut: 1}, "held_out", "one of the two"},
		"epochs":            {Config{Epochs: -1}, "epochs", "0 (without end)"},
	} {
		t.Run(name, func(t *testing.T) {
			var f *FieldError
			if _, err := Open(c.cfg, 2, 0); !errors.As(err, &f) || f.Field != c.field || !strings.Contains(f.Msg, c.msg) {
				t.Errorf("got %v; want %s: ...%s...", err, c.field, c.msg)
			}
		})
	}
}
