package main

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

// TestReference_IsUpToDate fails when a configuration struct changed and
// docs/configuration.md did not.
func TestReference_IsUpToDate(t *testing.T) {
	want, err := generate(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) == want {
		return
	}
	a, b := strings.Split(string(have), "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("docs/configuration.md is out of date, run `make docs`: line %d is\n%s\nshould be\n%s", i+1, a[i], b[i])
		}
	}
	t.Fatalf("docs/configuration.md is out of date, run `make docs`: %d lines, should be %d", len(a), len(b))
}

type sample struct {
	GroupSize int `yaml:"group_size"`
	Bare      int `yaml:"bare"`
}

func TestReference_RefusesAFieldWithoutAComment(t *testing.T) {
	pkg := strings.TrimPrefix(reflect.TypeFor[sample]().PkgPath(), module)
	p := &page{source: source{tree: fstest.MapFS{pkg + "/x.go": {Data: []byte("package main\n\ntype sample struct {\n\tGroupSize int\n\tBare int\n}\n")}},
		docs: map[string]map[string]string{}}, derived: map[string]bool{}}
	if err := p.section("", "", reflect.ValueOf(sample{})); !errors.Is(err, errUndocumented) {
		t.Errorf("got %v", err)
	}
}

func TestReference_SpeaksOfFieldsByTheirYAMLNames(t *testing.T) {
	if got := yamlNames("Oversample plays more than GroupSize.", reflect.TypeFor[sample]()); got != "Oversample plays more than `group_size`." {
		t.Errorf("got %q", got)
	}
}
