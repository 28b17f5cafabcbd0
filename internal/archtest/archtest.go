// Package archtest holds the tree to its architecture: who may import whom,
// where subjects are spelled, and how large a file may grow.
//
// One idea explains its shape: the rules read source text from an fs.FS, so the
// test that applies them to this repository is never served from a stale cache,
// and every rule has a test that shows it failing on a tree of three lines.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Module is the path that all packages of the repository start with.
const Module = "github.com/headrace/headrace"

// File is one Go file, parsed. Path is from the repository's root.
type File struct {
	Path  string
	Lines int
	AST   *ast.File
	fset  *token.FileSet
}

// Dir is the folder of the file's package, "." at the root.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Test reports whether only tests see the file: a test file, or one of a
// package that helps tests.
func (f *File) Test() bool {
	return strings.HasSuffix(f.Path, "_test.go") || helper(f.Dir())
}

// helper reports whether a package is there for tests alone.
func helper(dir string) bool { return strings.HasSuffix(path.Base(dir), "test") }

// Imports lists what the file imports, as paths.
func (f *File) Imports() []string {
	paths := make([]string, len(f.AST.Imports))
	for i, spec := range f.AST.Imports {
		paths[i] = strings.Trim(spec.Path.Value, `"`)
	}
	return paths
}

// at is a position in the file for people.
func (f *File) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.Path, f.fset.Position(n.Pos()).Line)
}

// Load parses every Go file of a tree. Folders that start with a dot or an
// underscore, and those called testdata, bin, out or runs, are not part of it.
func Load(tree fs.FS) ([]*File, error) {
	var files []*File
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(p):
			return fs.SkipDir
		case d.IsDir() || path.Ext(p) != ".go":
			return nil
		}
		f, err := parse(tree, p)
		if err == nil {
			files = append(files, f)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read tree: %w", err)
	}
	return files, nil
}

func skipped(p string) bool {
	name := path.Base(p)
	return p != "." && (strings.ContainsAny(name[:1], "._") || slices.Contains([]string{"testdata", "bin", "out", "runs"}, name))
}

func parse(tree fs.FS, p string) (*File, error) {
	text, err := fs.ReadFile(tree, p)
	if err != nil {
		return nil, err
	}
	f := &File{Path: p, Lines: strings.Count(string(text), "\n"), fset: token.NewFileSet()}
	f.AST, err = parser.ParseFile(f.fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

// Rule looks at one file and returns a line for each thing it may not do.
type Rule struct {
	Name  string
	Check func(*File) []string
}

// Rules are all that the repository is held to.
func Rules() []Rule {
	return []Rule{
		{"imports point one way", direction},
		{"pure packages stay pure", purity},
		{"subjects are spelled in one place", literals},
		{"tests wait for events, not for time", sleeps},
		{"main is a few lines", smallMain},
		{"files stay readable", length},
	}
}

// Check applies every rule to every file of a tree.
func Check(tree fs.FS) ([]string, error) {
	files, err := Load(tree)
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, rule := range Rules() {
		for _, f := range files {
			for _, fault := range rule.Check(f) {
				faults = append(faults, rule.Name+": "+fault)
			}
		}
	}
	return faults, nil
}
