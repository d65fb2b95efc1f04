package driver

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestStub: the build that cannot call libraries has the same functions, so that
// who compiles on one compiles on the other.
func TestStub(t *testing.T) {
	full := map[string]string{}
	for _, file := range []string{"driver.go", "context.go", "copy.go", "stream.go", "module.go", "cufile.go"} {
		maps.Copy(full, exported(t, file))
	}
	stub := exported(t, "stub.go")
	for _, name := range slices.Sorted(maps.Keys(full)) {
		if stub[name] != full[name] {
			t.Errorf("%s is\n%q, in the stub\n%q", name, full[name], stub[name])
		}
	}
	if len(stub) != len(full) || len(full) < 50 {
		t.Errorf("%d functions, %d in the stub", len(full), len(stub))
	}
}

// exported are the functions of a file with their signatures.
func exported(t *testing.T, file string) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !fn.Name.IsExported() {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil {
			name = fn.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name + "." + name
		}
		var b strings.Builder
		if err := printer.Fprint(&b, fset, fn.Type); err != nil {
			t.Fatal(err)
		}
		found[name] = b.String()
	}
	return found
}
