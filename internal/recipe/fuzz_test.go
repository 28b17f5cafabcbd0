package recipe

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// FuzzParse hands the recipe parser whatever a user, or a bus, may hold for a
// recipe: it says what is wrong in one line, or gives a recipe that can be
// written down and read again.
func FuzzParse(f *testing.F) {
	shipped, err := filepath.Glob("../../recipes/*/recipe.yaml")
	if err != nil || len(shipped) == 0 {
		f.Fatalf("no recipes: %v", err)
	}
	for _, file := range shipped {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("name: x\nenvironments:\n  - {name: frozenlake}\n  - {name: calculator, min_share: 0.25}\ntrainer: {steps: 1}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("name: |\n  x\n? y\n: !!binary z\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 {
			return
		}
		r, err := Parse("fuzz.yaml", data)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || !oneLine(err.Error()) {
				t.Fatalf("want one line of an Error, got %T: %q", err, err)
			}
			return
		}
		text, err := r.Marshal()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := Parse("fuzz.yaml", text)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, text)
		}
		if second, err := again.Marshal(); err != nil || !bytes.Equal(second, text) {
			t.Fatalf("written twice, it differs: %v\n%s\n%s", err, text, second)
		}
	})
}

// oneLine: what a terminal shows as one line, and obeys nothing of.
func oneLine(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
