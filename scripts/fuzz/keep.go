package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/headrace/headrace/internal/archtest"
)

// maxInput is the largest input that is kept; the fuzzer's are small.
const maxInput = 4 << 10

// keep chooses, smallest first, the inputs that reach a statement which no
// smaller one reached, and makes them the target's testdata/fuzz. Inputs that
// were given a name stay.
func keep(t target, limit int) error {
	dir := filepath.Join(t.dir, "testdata", "fuzz", t.name)
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return err
	}
	inputs, err := gather(dir, filepath.Join(strings.TrimSpace(string(cache)), "fuzz", archtest.Module, t.dir, t.name))
	if err != nil || len(inputs) == 0 {
		return err
	}
	tmp, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // a temporary folder
	binary := filepath.Join(tmp, "test")
	if out, err := exec.Command("go", "test", "-c", "-covermode=set", "-coverpkg=./"+t.dir, "-o", binary, "./"+t.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", t.dir, err, out)
	}
	covered, total, kept := map[string]bool{}, 0, 0
	for _, in := range inputs {
		lines, err := cover(t, binary, tmp, dir, in)
		if err != nil {
			return err
		}
		fresh := false
		for _, l := range lines {
			fresh = fresh || !covered[l]
		}
		if in.keep = in.byHand() || fresh && total+len(in.text) <= limit; in.keep {
			for _, l := range lines {
				covered[l] = true
			}
			total, kept = total+len(in.text), kept+1
		}
	}
	fmt.Printf("%s: %d of %d inputs, %d bytes\n", t.name, kept, len(inputs), total)
	return write(dir, inputs)
}

// input is one file of a corpus.
type input struct {
	name string
	text []byte
	keep bool
}

var hash = regexp.MustCompile(`^[0-9a-f]{16}$`)

// byHand: somebody gave it a name, since it was a fault once.
func (in *input) byHand() bool { return !hash.MatchString(in.name) }

// gather reads the inputs of folders, each once, smallest first.
func gather(dirs ...string) (out []*input, err error) {
	seen := map[string]bool{}
	for _, dir := range dirs {
		files, err := os.ReadDir(dir)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				return nil, err
			}
			if !seen[f.Name()] && len(text) <= maxInput {
				seen[f.Name()] = true
				out = append(out, &input{name: f.Name(), text: text})
			}
		}
	}
	slices.SortFunc(out, func(a, b *input) int {
		return cmp.Or(cmp.Compare(len(a.text), len(b.text)), cmp.Compare(a.name, b.name))
	})
	return out, nil
}

// cover runs the target on one input and returns the blocks that it reached.
func cover(t target, binary, tmp, dir string, in *input) (blocks []string, err error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := write(dir, []*input{{name: in.name, text: in.text, keep: true}}); err != nil {
		return nil, err
	}
	profile := filepath.Join(tmp, "cover")
	cmd := exec.Command(binary, "-test.run=^"+t.name+"$/^"+in.name+"$", "-test.coverprofile="+profile)
	cmd.Dir = t.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s on %s: %w\n%s", t.name, in.name, err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(text) {
		if block, hit := bytes.CutSuffix(bytes.TrimSpace(line), []byte(" 1")); hit && !bytes.HasPrefix(line, []byte("mode:")) {
			blocks = append(blocks, string(block))
		}
	}
	return blocks, nil
}

// write makes a folder of the inputs that are kept.
func write(dir string, inputs []*input) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, in := range inputs {
		if !in.keep {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, in.name), in.text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
