package lint

import (
	"fmt"
	"strings"
)

// layers are the top folders of the repository from the ground up. A package
// may import its own folder and folders of a lower number; folders of equal
// number know nothing of each other.
var layers = map[string]int{
	"internal": 1,
	"wal":      2,
	"tiers":    2,
	"gpu":      2,
	"engine":   3,
	"tools":    4,
}

// checkLayers holds that arrows between folders point down only, in tests too.
func checkLayers(t *Tree) []Finding {
	var found []Finding
	for _, p := range t.Packages {
		from := folder(t.rel(p))
		if layers[from] == 0 {
			found = append(found, Finding{Rule: "layers", File: p.Files[0].Name,
				Message: fmt.Sprintf("folder %q belongs to no layer; move the package or name its layer in internal/lint", from)})
			continue
		}
		for _, f := range p.Files {
			found = append(found, t.fileLayers(f, from)...)
		}
	}
	return found
}

func (t *Tree) fileLayers(f *File, from string) []Finding {
	var found []Finding
	for _, imp := range f.AST.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		if !under(path, t.Module) {
			continue
		}
		to := folder(strings.TrimPrefix(strings.TrimPrefix(path, t.Module), "/"))
		if to == from || layers[to] < layers[from] && layers[to] != 0 {
			continue
		}
		found = append(found, Finding{Rule: "layers", File: f.Name, Line: t.line(imp.Pos()),
			Message: fmt.Sprintf("%s must not import %s: arrows point down only (tools, engine, {wal, tiers, gpu}, internal)", from, path)})
	}
	return found
}

// folder is the first element of a path.
func folder(path string) string {
	first, _, _ := strings.Cut(path, "/")
	return first
}
