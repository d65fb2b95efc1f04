package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Tree is a module with its packages parsed.
type Tree struct {
	Root     string // directory of go.mod
	Module   string // module path
	Packages []*Package
	fset     *token.FileSet
}

// Package is one directory of Go files. Files for other systems and other
// build tags are in it as well: a rule must hold on all of them.
type Package struct {
	ImportPath string
	Name       string // package clause, without a _test suffix
	Dir        string
	Files      []*File
}

// File is one parsed Go file.
type File struct {
	Name  string // path within the repository, with slashes
	Test  bool   // _test.go
	Lines int
	AST   *ast.File
}

// Load lists the packages below root with go list and parses their files.
func Load(root string) (*Tree, error) {
	listed, err := list(root)
	if err != nil {
		return nil, err
	}
	t := &Tree{Root: root, fset: token.NewFileSet()}
	for _, l := range listed {
		p := &Package{ImportPath: l.ImportPath, Name: l.Name, Dir: l.Dir}
		if err := t.parse(p); err != nil {
			return nil, err
		}
		if len(p.Files) == 0 {
			continue
		}
		t.Module = l.Module.Path
		t.Packages = append(t.Packages, p)
	}
	if len(t.Packages) == 0 {
		return nil, fmt.Errorf("lint: no Go package below %s", root)
	}
	return t, nil
}

type listedPackage struct {
	ImportPath, Name, Dir string
	Module                struct{ Path string }
}

// list asks the go command, without resolving imports: -find keeps it fast and
// lets it work on trees whose imports are wrong.
func list(root string) ([]listedPackage, error) {
	cmd := exec.Command("go", "list", "-e", "-find", "-json=ImportPath,Name,Dir,Module", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off", "GO111MODULE=on")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("lint: go list in %s: %w: %s", root, err, bytes.TrimSpace(stderr.Bytes()))
	}
	var listed []listedPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listedPackage
		switch err := dec.Decode(&l); {
		case errors.Is(err, io.EOF):
			return listed, nil
		case err != nil:
			return nil, fmt.Errorf("lint: output of go list: %w", err)
		}
		listed = append(listed, l)
	}
}

func (t *Tree) parse(p *Package) error {
	names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(t.Root, name)
		if err != nil {
			return err
		}
		p.Files = append(p.Files, &File{
			Name:  filepath.ToSlash(rel),
			Test:  strings.HasSuffix(name, "_test.go"),
			Lines: bytes.Count(src, []byte("\n")),
			AST:   parsed,
		})
	}
	return nil
}

// line is the line of a position within its file.
func (t *Tree) line(p token.Pos) int { return t.fset.Position(p).Line }

// rel is a package's path within the module: "" for the root itself.
func (t *Tree) rel(p *Package) string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, t.Module), "/")
}

// library says whether a package may be linked into somebody else's process:
// everything but commands and what lives below tools/.
func (t *Tree) library(p *Package) bool {
	return p.Name != "main" && !under(t.rel(p), "tools")
}

// support says whether a package only serves tests, as its name tells
// (readertest, vfstest).
func (p *Package) support() bool { return strings.HasSuffix(p.Name, "test") }

// under says whether path is dir or lies below it.
func under(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// underAny is under for several directories.
func underAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(path, d) })
}
