package lint

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// fence keeps a foreign package to some folders. Test files are held to it as
// well unless tests is set; folders nil means nowhere else.
type fence struct {
	path    string   // import path, or a prefix of it
	folders []string // where it is allowed
	tests   bool     // allowed in every _test.go and in test support packages
	why     string
}

var fences = []fence{
	{"github.com/cockroachdb/pebble", []string{"engine/index"}, false, "the index hides which engine keeps it"},
	{"github.com/spf13", []string{"tools"}, false, "command lines are tools"},
	{"github.com/prometheus", []string{"tools"}, false, "a library brings no metrics registry into its host"},
	{"github.com/schollz/progressbar", []string{"tools"}, false, "a library does not draw"},
	{"github.com/pelletier/go-toml", []string{"tools"}, false, "a library is configured by its caller"},
	{"golang.org/x/term", []string{"tools"}, false, "a library knows no terminal"},
	{"github.com/klauspost/compress", []string{"tiers/disk"}, false, "compressed bytes are decoded in one place, behind their sums"},
	{"testing", nil, true, "a library does not bring the testing package into its host"},
	{"pgregory.net/rapid", nil, true, "test library"},
	{"go.uber.org/goleak", nil, true, "test library"},
	{"github.com/cockroachdb/datadriven", nil, true, "test library"},
	{"github.com/google/go-cmp", nil, true, "test library"},
	{"log", []string{"tools"}, true, "a library logs to the *slog.Logger it was given"},
	{"github.com/NVIDIA/go-nvml", []string{"gpu/inventory"}, false, "it cannot live in a library, and a function that the driver lacks ends the process"},
	{"github.com/sealstone/sealstone/gpu/inventory", []string{"gpu/inventory", "tools"}, false, "it brings go-nvml, which only executables may link"},
	{"C", []string{"gpu", "tools/libsealstone"}, false, "everything else builds without a C compiler"},
}

// checkImports holds the fences.
func checkImports(t *Tree) []Finding {
	var found []Finding
	for _, p := range t.Packages {
		for _, f := range p.Files {
			for _, imp := range f.AST.Imports {
				if m := t.fenced(p, f, imp); m != "" {
					found = append(found, Finding{Rule: "imports", File: f.Name, Line: t.line(imp.Pos()), Message: m})
				}
			}
		}
	}
	return found
}

func (t *Tree) fenced(p *Package, f *File, imp *ast.ImportSpec) string {
	path := strings.Trim(imp.Path.Value, `"`)
	for _, fe := range fences {
		if !reaches(path, fe.path) || underAny(t.rel(p), fe.folders) || fe.tests && (f.Test || p.support()) {
			continue
		}
		return fmt.Sprintf("%s is allowed only %s: %s", path, fe.where(), fe.why)
	}
	return ""
}

func (f fence) where() string {
	places := slices.Clone(f.folders)
	for i, p := range places {
		places[i] = "below " + p
	}
	if f.tests {
		places = append(places, "in tests")
	}
	return strings.Join(places, ", ")
}

// reaches says whether an import path is the fenced one or lies below it. Of
// the standard library only the very package counts: "log" fences no log/slog.
func reaches(path, fenced string) bool {
	if !strings.Contains(fenced, ".") {
		return path == fenced
	}
	return under(path, fenced)
}
