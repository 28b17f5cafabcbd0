package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"reflect"
	"strings"
)

const module = "github.com/headrace/headrace/"

// source finds the doc comments of struct fields in a tree of Go files.
type source struct {
	tree fs.FS
	docs map[string]map[string]string // package and type -> field -> comment
}

// fields gives the comment of each field of a struct type, by Go name. A field
// without one shares that of the field above.
func (s *source) fields(t reflect.Type) (map[string]string, error) {
	key := t.PkgPath() + "." + t.Name()
	if _, ok := s.docs[key]; !ok {
		if err := s.read(t.PkgPath()); err != nil {
			return nil, err
		}
	}
	docs, ok := s.docs[key]
	if !ok {
		return nil, fmt.Errorf("no source of %s", key)
	}
	return docs, nil
}

// read collects the structs of a package.
func (s *source) read(pkg string) error {
	dir := strings.TrimPrefix(pkg, module)
	entries, err := fs.ReadDir(s.tree, dir)
	if err != nil {
		return fmt.Errorf("read package %s: %w", pkg, err)
	}
	for _, e := range entries {
		if path.Ext(e.Name()) != ".go" || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		text, err := fs.ReadFile(s.tree, path.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), text, parser.ParseComments)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if st, ok := spec.Type.(*ast.StructType); ok {
					s.docs[pkg+"."+spec.Name.Name] = comments(st)
				}
			}
			return true
		})
	}
	return nil
}

func comments(st *ast.StructType) map[string]string {
	docs, last := map[string]string{}, ""
	for _, field := range st.Fields.List {
		text := field.Doc.Text()
		if text == "" {
			text = field.Comment.Text()
		}
		if text == "" {
			text = last
		}
		last = text
		for _, name := range field.Names {
			docs[name.Name] = strings.Join(strings.Fields(text), " ")
		}
	}
	return docs
}

var errUndocumented = errors.New("has no doc comment")
