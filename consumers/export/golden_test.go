package export

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/parquet-go/parquet-go"
)

var update = flag.Bool("update", false, "write the golden exports anew")

// TestGolden_FormsAreThoseOfTheirVersion compares the forms with what this version
// wrote. The Python tests read the same files with pyarrow and
// the models of ATIF.
func TestGolden_FormsAreThoseOfTheirVersion(t *testing.T) {
	c := world(t)
	eventful(t, c)
	golden, dir := filepath.Join("testdata", fmt.Sprintf("v%d", Version)), t.TempDir()
	text, _ := exported(t, c, origin, Filter{})
	r, err := Export(t.Context(), c, origin, Options{Format: Parquet, Path: filepath.Join(dir, "set")})
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(r.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	atif, _ := written(t, c, Options{Format: ATIF})
	if *update {
		for name, data := range map[string][]byte{"world.jsonl": []byte(text), "world.parquet": table, "world.atif.jsonl": []byte(atif)} {
			if err := os.WriteFile(filepath.Join(golden, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, err := os.ReadFile(filepath.Join(golden, "world.jsonl"))
	if err != nil || !bytes.Equal(want, []byte(text)) {
		t.Errorf("%v: the lossless form is no longer that of version %d:\n%s", err, Version, text)
	}
	if want, err = os.ReadFile(filepath.Join(golden, "world.atif.jsonl")); err != nil || !bytes.Equal(want, []byte(atif)) {
		t.Errorf("%v: the ATIF form is another one:\n%s", err, atif)
	}
	have, err := parquet.ReadFile[row](r.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	before, err := parquet.ReadFile[row](filepath.Join(golden, "world.parquet"))
	if err != nil || !reflect.DeepEqual(have, before) {
		t.Errorf("%v: the table has other rows than before", err)
	}
}
