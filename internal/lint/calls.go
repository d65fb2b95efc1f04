package lint

import (
	"fmt"
	"go/ast"
	"path"
	"strings"
)

// banned are the names, by import path, that a library must not touch: its
// process and its terminal belong to its host. A trailing star matches any
// ending.
var banned = map[string][]string{
	"os":                    {"Exit", "Stdout", "Stderr", "Stdin"},
	"fmt":                   {"Print*", "Scan*"},
	"log":                   {"*"},
	"syscall":               {"Exit", "Kill"},
	"golang.org/x/sys/unix": {"Exit", "Kill"},
}

// checkCalls holds that library code does not end, interrupt or write into its
// host process. Test files may do as they please.
func checkCalls(t *Tree) []Finding {
	var found []Finding
	for _, p := range t.Packages {
		if !t.library(p) || p.support() {
			continue
		}
		for _, f := range p.Files {
			if !f.Test {
				found = append(found, t.fileCalls(f)...)
			}
		}
	}
	return found
}

func (t *Tree) fileCalls(f *File) []Finding {
	var found []Finding
	add := func(n ast.Node, name string) {
		found = append(found, Finding{Rule: "calls", File: f.Name, Line: t.line(n.Pos()),
			Message: fmt.Sprintf("%s in a library: return an error, or report it in health, events or the logger", name)})
	}
	imported := importNames(f.AST)
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "panic" || id.Name == "print" || id.Name == "println") {
				add(n, id.Name)
			}
		case *ast.SelectorExpr:
			if name, ok := bannedName(n, imported); ok {
				add(n, name)
			}
		}
		return true
	})
	return found
}

// importNames maps the names under which a file uses packages to their paths.
func importNames(f *ast.File) map[string]string {
	names := map[string]string{}
	for _, imp := range f.Imports {
		p := strings.Trim(imp.Path.Value, `"`)
		name := path.Base(p)
		if imp.Name != nil {
			name = imp.Name.Name
		}
		names[name] = p
	}
	return names
}

func bannedName(s *ast.SelectorExpr, imported map[string]string) (string, bool) {
	pkg, ok := s.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	for _, pattern := range banned[imported[pkg.Name]] {
		prefix, wild := strings.CutSuffix(pattern, "*")
		if s.Sel.Name == pattern || wild && strings.HasPrefix(s.Sel.Name, prefix) {
			return path.Base(imported[pkg.Name]) + "." + s.Sel.Name, true
		}
	}
	return "", false
}
