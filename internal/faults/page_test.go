package faults

import (
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/archtest"
)

const page = "../../docs/faults.md"

var (
	named = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	row   = regexp.MustCompile(`(?m)^\| (F?[0-9]+) \|.*\| ([^|]*) \|$`)
)

// tree lists the tests of the repository, and the packages they are in.
func tree(t *testing.T) map[string]string {
	t.Helper()
	files, err := archtest.Load(os.DirFS("../.."))
	if err != nil || len(files) < 100 {
		t.Fatalf("read %d files: %v", len(files), err)
	}
	tests := map[string]string{}
	for _, f := range files {
		if !strings.HasSuffix(f.Path, "_test.go") {
			continue
		}
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && (strings.HasPrefix(fn.Name.Name, "Test") || strings.HasPrefix(fn.Name.Name, "Fuzz")) {
				tests[fn.Name.Name] = f.Dir()
			}
		}
	}
	return tests
}

// TestPage_IsTheTree: the page names tests that exist, all of this package's,
// every fuzz target, and has a row for every fault.
func TestPage_IsTheTree(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	tests, told := tree(t), map[string]bool{}
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		if told[m[1]] = true; tests[m[1]] == "" {
			t.Errorf("docs/faults.md names %s, which is not there", m[1])
		}
	}
	for name, dir := range tests {
		if fault := dir == "internal/faults" && name != "TestPage_IsTheTree" && name != "TestMain"; (fault || strings.HasPrefix(name, "Fuzz")) && !told[name] {
			t.Errorf("docs/faults.md does not name %s of %s", name, dir)
		}
	}
	rows := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if rows[m[1]] = true; !strings.Contains(m[2], "`Test") {
			t.Errorf("nothing holds %s", m[1])
		}
	}
	for n := 1; n <= 25; n++ {
		if !slices.Contains([]int{8, 15, 16, 20}, n) && !rows[strconv.Itoa(n)] { // the list has no such numbers
			t.Errorf("complaint %d has no row", n)
		}
		if n <= 19 && n != 9 && n != 16 && !rows["F"+strconv.Itoa(n)] {
			t.Errorf("fault F%d has no row", n)
		}
	}
}
