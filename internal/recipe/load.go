package recipe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Error is a mistake in a recipe: one line that names the file, the line, the
// field and what is allowed.
type Error struct {
	File  string
	Line  int // 0 when the mistake has no line: a field that is missing
	Field string
	Msg   string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Line))
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	return printable(b.String() + ": " + e.Msg)
}

// printable writes out what a terminal would not show, or would obey: a recipe
// may be anybody's.
func printable(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// Load reads a recipe file, fills in defaults and validates it.
func Load(file string) (*Recipe, error) { return load(file, nil) }

func load(file string, seed *int64) (*Recipe, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, &Error{File: file, Msg: readable(err)}
	}
	return parse(file, data, seed)
}

func readable(err error) string {
	if errors.Is(err, os.ErrNotExist) {
		return "no such file (recipes are YAML files, see recipes/)"
	}
	return err.Error()
}

// Parse is Load on bytes; file is only used in errors.
func Parse(file string, data []byte) (*Recipe, error) { return parse(file, data, nil) }

func parse(file string, data []byte, seed *int64) (*Recipe, error) {
	doc := document{file: file}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, doc.yamlError(err)
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return nil, &Error{File: file, Msg: "want one YAML document"}
	}
	doc.root = tree.Docs[0].Body
	if err := doc.check(doc.root, reflect.TypeFor[Recipe](), ""); err != nil {
		return nil, err
	}
	r := Default()
	if err := yaml.NodeToValue(doc.root, r); err != nil {
		return nil, doc.yamlError(err)
	}
	if seed != nil {
		r.Seed = *seed
	}
	r.withDefaults()
	if err := r.Validate(); err != nil {
		return nil, doc.locate(err)
	}
	r.resolve(filepath.Dir(file))
	return r, nil
}

// document is a parsed file whose fields can be found again for an error.
type document struct {
	file string
	root ast.Node
}

var position = regexp.MustCompile(`^\[(\d+):\d+\] (.*)`)

// yamlError turns the library's several lines into one.
func (d *document) yamlError(err error) error {
	first, _, _ := strings.Cut(err.Error(), "\n")
	e := &Error{File: d.file, Msg: first}
	if m := position.FindStringSubmatch(first); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Msg = m[2]
	}
	return e
}

// locate gives a validation error the line of the field it names, or of the
// nearest enclosing one that the file has.
func (d *document) locate(err error) error {
	var f *FieldError
	if !errors.As(err, &f) {
		return &Error{File: d.file, Msg: err.Error()}
	}
	node, line := d.root, 0
	for _, name := range strings.Split(f.Field, ".") {
		value := child(node, name)
		if value == nil {
			break
		}
		line, node = value.Key.GetToken().Position.Line, value.Value
	}
	return &Error{File: d.file, Line: line, Field: f.Field, Msg: f.Msg}
}

func child(node ast.Node, name string) *ast.MappingValueNode {
	for _, v := range members(node) {
		if v.Key.GetToken().Value == name {
			return v
		}
	}
	return nil
}

func members(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

func fieldByName(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if opts == "inline" {
			if inner, ok := fieldByName(f.Type, name); ok {
				return inner, true
			}
		}
		if tag == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		tag, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case opts == "inline":
			names = append(names, fieldNames(f.Type)...)
		case tag != "" && tag != "-":
			names = append(names, tag)
		}
	}
	return names
}

// FieldError is a value that is not allowed, by the field's path in the recipe.
type FieldError struct{ Field, Msg string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Msg }

func fieldErrorf(field, format string, args ...any) error {
	return &FieldError{Field: field, Msg: fmt.Sprintf(format, args...)}
}
