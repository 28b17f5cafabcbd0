package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// literals wants subject and stream names made by package subjects alone. Tests
// may spell them: that is how they notice a change.
func literals(f *File) []string {
	if f.Test() || under(f.Dir(), "subjects") || under(f.Dir(), "internal/archtest") {
		return nil
	}
	var faults []string
	ast.Inspect(f.AST, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && (strings.HasPrefix(text, "hr.") || strings.HasPrefix(text, "hr_")) {
			faults = append(faults, fmt.Sprintf("%s: %s belongs into package subjects", f.at(lit), lit.Value))
		}
		return true
	})
	return faults
}

// sleeps refuses time.Sleep in tests, except where time is fake: in files that
// use testing/synctest.
func sleeps(f *File) []string {
	if !f.Test() || slices.Contains(f.Imports(), "testing/synctest") {
		return nil
	}
	var faults []string
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
				faults = append(faults, f.at(n)+": a test sleeps; wait for the event, or use testing/synctest")
			}
		}
		return true
	})
	return faults
}

const (
	mainLines = 20
	fileLines = 500
)

func smallMain(f *File) []string {
	if !under(f.Dir(), "cmd") || f.Lines <= mainLines {
		return nil
	}
	return []string{fmt.Sprintf("%s has %d lines, at most %d: the program is internal/app", f.Path, f.Lines, mainLines)}
}

func length(f *File) []string {
	if f.Lines <= fileLines {
		return nil
	}
	return []string{fmt.Sprintf("%s has %d lines, at most %d", f.Path, f.Lines, fileLines)}
}
