package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
)

// skipPage lists the tests that may be skipped, each with its reason.
const skipPage = "docs/testing.md"

// checkSkips holds that a file whose tests may skip themselves is listed, in
// backticks, on that page: a skipped test must not be a forgotten one.
func checkSkips(t *Tree) []Finding {
	// A missing page lists nothing.
	page, err := os.ReadFile(filepath.Join(t.Root, filepath.FromSlash(skipPage)))
	if err != nil && !os.IsNotExist(err) {
		return []Finding{{Rule: "skips", File: skipPage, Message: err.Error()}}
	}
	var found []Finding
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if bytes.Contains(page, []byte("`"+f.Name+"`")) {
				continue
			}
			for _, call := range skipCalls(f) {
				found = append(found, Finding{Rule: "skips", File: f.Name, Line: t.line(call.Pos()),
					Message: fmt.Sprintf("a test may be skipped here: list `%s` with the reason in %s", f.Name, skipPage)})
			}
		}
	}
	return found
}

// skipCalls are the calls of Skip, Skipf and SkipNow on something named like
// a test's t, b or f.
func skipCalls(f *File) []*ast.CallExpr {
	var calls []*ast.CallExpr
	ast.Inspect(f.AST, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		s, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		on, ok := s.X.(*ast.Ident)
		if !ok || len(on.Name) > 2 {
			return true
		}
		switch s.Sel.Name {
		case "Skip", "Skipf", "SkipNow":
			calls = append(calls, call)
		}
		return true
	})
	return calls
}
