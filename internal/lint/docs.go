package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// wellKnown are methods whose meaning the standard library defines.
var wellKnown = []string{
	"Error", "Unwrap", "Is", "As", "String", "GoString", "Format",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "Len", "Less", "Swap",
}

// checkDocs holds that every package has a package comment and that every
// exported name of a library package says what it means.
func checkDocs(t *Tree) []Finding {
	var found []Finding
	for _, p := range t.Packages {
		code := slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test })
		if len(code) == 0 {
			continue
		}
		if !slices.ContainsFunc(code, func(f *File) bool { return f.AST.Doc != nil }) {
			found = append(found, Finding{Rule: "docs", File: code[0].Name,
				Message: fmt.Sprintf("package %s has no package comment", p.ImportPath)})
		}
		if p.Name == "main" {
			continue
		}
		for _, f := range code {
			for _, d := range f.AST.Decls {
				found = append(found, t.declDocs(f, d)...)
			}
		}
	}
	return found
}

func (t *Tree) declDocs(f *File, d ast.Decl) []Finding {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !(d.Recv != nil && slices.Contains(wellKnown, d.Name.Name)) {
			return []Finding{t.undocumented(f, d.Name)}
		}
	case *ast.GenDecl:
		return t.specDocs(f, d)
	}
	return nil
}

// specDocs looks at types, constants and variables. A comment on a group of
// constants or variables speaks for all of them.
func (t *Tree) specDocs(f *File, d *ast.GenDecl) []Finding {
	var found []Finding
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen != token.NoPos) {
				found = append(found, t.undocumented(f, s.Name))
			}
		case *ast.ValueSpec:
			if s.Doc != nil || s.Comment != nil || d.Doc != nil {
				continue
			}
			for _, name := range s.Names {
				if name.IsExported() {
					found = append(found, t.undocumented(f, name))
				}
			}
		}
	}
	return found
}

func (t *Tree) undocumented(f *File, name *ast.Ident) Finding {
	return Finding{Rule: "docs", File: f.Name, Line: t.line(name.Pos()),
		Message: fmt.Sprintf("exported %s has no comment", name.Name)}
}

// exportedReceiver is true for functions, and for methods of exported types.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}
