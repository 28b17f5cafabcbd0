package recipe

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// check refuses keys that type t has no field for, and values that are not of
// its type. The decoder would take some of them: it cuts 8.5 down to 8.
func (d *document) check(node ast.Node, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch node.(type) {
	case *ast.NullNode, *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		return nil // left out, or the decoder's business
	}
	if want := mismatch(node, t); want != "" {
		return &Error{File: d.file, Line: line(node), Field: path, Msg: shown(node) + "; want " + want}
	}
	switch t.Kind() {
	case reflect.Struct:
		return d.checkFields(node, t, path)
	case reflect.Slice:
		for i, element := range node.(*ast.SequenceNode).Values {
			if err := d.check(element, t.Elem(), path+"."+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *document) checkFields(node ast.Node, t reflect.Type, path string) error {
	for _, v := range members(node) {
		key := v.Key.GetToken().Value
		full := strings.TrimPrefix(path+"."+key, ".")
		field, ok := fieldByName(t, key)
		if !ok {
			return &Error{File: d.file, Line: v.Key.GetToken().Position.Line, Field: full,
				Msg: "unknown field; allowed here: " + strings.Join(fieldNames(t), ", ")}
		}
		if err := d.check(v.Value, field.Type, full); err != nil {
			return err
		}
	}
	return nil
}

// mismatch says what type t takes if the node is something else.
func mismatch(node ast.Node, t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		if _, err := time.ParseDuration(node.GetToken().Value); err != nil || isList(node) {
			return "a duration such as 500ms, 30s or 10m"
		}
		return ""
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return unless(isMapping(node), "a mapping of fields")
	case reflect.Slice:
		return unless(isList(node), "a list")
	case reflect.Bool:
		_, ok := node.(*ast.BoolNode)
		return unless(ok, "true or false")
	case reflect.String:
		return unless(isText(node), "text (in quotes, if it looks like something else)")
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, ok := number(node)
		return unless(ok && n == math.Trunc(n), "a whole number")
	case reflect.Float64:
		_, ok := number(node)
		return unless(ok, "a number")
	}
	return ""
}

func unless(ok bool, want string) string {
	if ok {
		return ""
	}
	return want
}

func isMapping(node ast.Node) bool {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

func isList(node ast.Node) bool {
	_, ok := node.(*ast.SequenceNode)
	return ok
}

func isText(node ast.Node) bool {
	switch node.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		return true
	}
	return false
}

// number is the value of a finite number, as near as a float64 comes.
func number(node ast.Node) (float64, bool) {
	switch n := node.(type) {
	case *ast.IntegerNode:
		switch v := n.Value.(type) {
		case int64:
			return float64(v), true
		case uint64:
			return float64(v), true
		}
	case *ast.StringNode: // 1e-6, which the library takes for text
		v, err := strconv.ParseFloat(n.Value, 64)
		return v, err == nil && n.Token.Type == token.StringType && !math.IsInf(v, 0) && !math.IsNaN(v)
	case *ast.FloatNode:
		return n.Value, !math.IsInf(n.Value, 0) && !math.IsNaN(n.Value)
	}
	return 0, false
}

// line is where the node starts; of a mapping, its first key.
func line(node ast.Node) int {
	if m := members(node); len(m) > 0 {
		return m[0].Key.GetToken().Position.Line
	}
	return node.GetToken().Position.Line
}

// shown is the node in an error.
func shown(node ast.Node) string {
	switch {
	case isMapping(node):
		return "a mapping"
	case isList(node):
		return "a list"
	}
	return fmt.Sprintf("%.60q", node.GetToken().Value)
}
